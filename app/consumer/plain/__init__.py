"""The connector's own loop, where ``transform()`` is untouched.

loop         polls thousands of messages, claims partitions, and copies to Kafka how far they are in the lake
sink         takes the messages and seals them into portions for the pipeline
partitions   what is known of each assigned partition
client       Kafka's client, made from the public configuration of the Quix application
"""
