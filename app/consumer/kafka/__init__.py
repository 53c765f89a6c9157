"""Kafka itself: its brokers, logins, the consumer group, ends of partitions, and what its errors mean."""
