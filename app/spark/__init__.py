"""The Java process, the hand-over file, and the partitioned write: the only home of pyspark and py4j."""
