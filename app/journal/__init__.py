"""Decides which member may write which partition, and which offsets are in the table, for delivery exactly once.

own_log         the protocol, and the log of this member's assignment: intend, verify, done; start reading here
takeover        claims partitions: fences their former owners and settles their batches
recovery        keeps or rolls back the unfinished batch of a former owner, and registers its files again
log             the JSON of an assignment's log
entry           the common parts of these documents, and their keys
journal         the keys of a consumer group's documents, the JSON of a claim, obsolete logs, and a survey
start_offset    the first offset to consume, from the journal and Kafka's offsets
first_offsets   the first offset to consume without journal and offset, and the first topics of a group
late_uploads    puts placeholders in place of rolled-back objects, and deletes them later

All functions of this package may raise a ``ConnectorError`` of the store, the catalog or Kafka.
"""
