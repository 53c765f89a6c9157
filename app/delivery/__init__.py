"""A member of the consumer group: its assignment of partitions, and steps 1 to 7 of each batch on separate threads.

member      writes one table's records to the lake; start reading here. runtime: threads and memory that members share
members     the members of the process, by the states of their topics: topic
assignment  the partitions that Kafka has assigned to this member
claimer     claims these partitions
pipeline    the threads and the order of the steps; flow: the batches between the threads, and the threads' failure
gather      1 convert, 2 stage (stage); batch_limits: when a batch ends
            3 spark: ``app.spark.writer``
deliver     4 intend, 7 done: ``app.journal.own_log``; 5 upload; 6 register: ``app.catalog.registrar``
"""
