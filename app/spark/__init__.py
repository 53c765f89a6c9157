"""The Java process, the staged file, and the partitioned write. Only this package uses pyspark and py4j."""
