"""Kafka itself: its brokers, logins, topics and consumer groups, and what its errors mean.

Whatever asks Kafka raises ``RetryableError`` if there is no answer yet, and ``FatalError`` if it is a refusal.
"""
