"""The connector's own loop, where ``transform()`` is untouched.

loop     polls thousands of messages, claims partitions, and hands messages to their assignment
intake   measures the messages, and rejects those that are too big
copies   to Kafka: how far partitions are in the lake
client   Kafka's client, made from the public configuration of the Quix application
"""
