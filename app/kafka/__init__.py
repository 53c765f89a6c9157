"""Kafka: its brokers, logins, topics, consumer groups and errors.

Each query raises ``RetryableError`` if Kafka has not answered yet, and ``FatalError`` if Kafka refuses the query.
"""
