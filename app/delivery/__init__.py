"""An assignment, and steps 1 to 7 of its batches on threads of their own.

assignment  the partitions that Kafka has given to this member; start reading here
claimer     makes assignments, and claims their partitions
pipeline    the threads and the order of the steps; flow: the batches between them, and what they have in common
gather      1 convert, 2 stage (stage, open_batch); limits: when a batch ends
            3 spark: ``app.spark.writer``
deliver     4 intend, 7 done: ``app.journal.own_log``; 5 upload; 6 register: ``app.catalog.registrar``
"""
