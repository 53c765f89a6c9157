"""Exactly once: which member may write which partition, and which offsets are in the table.

journal                 the protocol: claim, recover, intend, verify, done; start reading here
ownership               which assignment may upload and register; each step of a batch asks it
entry                   the JSON of a journal's entry
entry_store             the compare-and-set of an entry: read, replace only the version last read, verify
claims                  claims the journals of newly assigned partitions, on threads of their own
start_offset            where consuming begins, from the journal's end and the group's offset
first_offsets           where consuming begins if there is neither of them
group_offsets           a partition's offsets in Kafka, and the mark beside the connector's own commits
kafka_watch             whether topic and consumer group are still those that were claimed
recovery                rolls a former owner's batch forward: registers its files again
rolled_back             deletes the files of batches that were rolled back, repeatedly
survey                  reads all journals of a table, for commands
"""
