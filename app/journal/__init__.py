"""Exactly once: which member may write which partition, and which offsets are in the table.

own_log                 the protocol, and the log of this member's assignment: intend, verify, done; start reading here
takeover                claims partitions: fences and settles their former owners
settle                  keeps or rolls back the batch that a former owner left behind
log                     the JSON of a generation's log
claim                   the JSON of a partition's claim
entry                   the common parts of these documents, and their keys
journal                 where all these documents of a consumer group lie
beginning               where consuming begins, from the journal's end and Kafka's offsets (start_offset)
first_offsets           where consuming begins if there is neither of them
recovery                rolls a former owner's batch forward: registers its files again
rolled_back             puts placeholders in place of rolled-back objects, and deletes them later
obsolete_logs           deletes logs that no claim names any more
survey                  reads all journals of a table, of all consumer groups, for commands

Whatever reads or writes here lets the ``ConnectorError`` of the store, the catalog and Kafka through.
"""
