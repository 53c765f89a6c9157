"""Exactly once: which member may write which partition, and which offsets are in the table.

ownership               whose rows may be uploaded and registered; every step of a batch asks here
journal                 the protocol: claim, recover, intend, verify, done; start reading here
entry                   the JSON of a journal's entry
entry_store             the compare-and-set of an entry: read, replace only the version last read, verify
claims                  claims the journals of newly assigned partitions, on threads of their own
start_offset            where consuming begins, from the journal's end and the group's offset
first_offsets           where it begins with neither of them
group_offsets           what Kafka says of a partition's offsets, and the mark beside the connector's own commits
kafka_watch             whether topic and consumer group are still those that were claimed
recovery, rolled_back   what a former owner left: registered again, or deleted again and again
survey                  all journals of a table, for commands that read it
"""
