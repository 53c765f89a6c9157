"""Exactly once: which member may write which partition, and which offsets are in the table.

own_log                 the protocol, and the log of this member's assignment: intend, verify, done; start reading here
takeover                claims partitions: fences and settles their former owners
settle                  keeps or rolls back the batch that a former owner left behind, and registers its files again
log                     the JSON of an assignment's log
entry                   the common parts of these documents, and their keys
journal                 where all these documents of a consumer group lie, the JSON of a claim, obsolete logs; a survey
beginning               where consuming begins, from the journal's end and Kafka's offsets
first_offsets           where consuming begins if there is neither of them, and the first topics of a group
rolled_back             puts placeholders in place of rolled-back objects, and deletes them later

Whatever reads or writes here lets the ``ConnectorError`` of the store, the catalog and Kafka through.
"""
