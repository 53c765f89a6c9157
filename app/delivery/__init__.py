"""A member of the consumer group: its assignment, and steps 1 to 7 of its batches on threads of their own.

member      owns the way of one table's records to the lake; start reading here. runtime: what members run on and share
members     the members of the process, by the states of their topics: topic
assignment  the partitions that Kafka has given to this member
claimer     claims them
pipeline    the threads and the order of the steps; flow: the batches between them, and what they have in common
gather      1 convert, 2 stage; limits: when a batch ends
            3 spark: ``app.spark.writer``
deliver     4 intend, 7 done: ``app.journal.own_log``; 5 upload; 6 register: ``app.catalog.registrar``
"""
