"""Steps 1 to 7 of a batch, on threads of their own.

pipeline    the three threads and the order of the steps
in_flight   a batch between the steps, and its hand-over from thread to thread
stage       1 convert, 2 stage: one Parquet file, each row with the number of its output file
            3 spark: ``app.spark.writer``
upload      4 intend: the objects that the log announces; 5 upload: the objects and their keys
            6 register: ``app.catalog.registrar``; 7 done: ``app.journal.ownership``
"""
