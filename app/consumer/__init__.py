"""Consumes from Kafka: ``plain`` is the connector's own loop, ``framework`` the sink of quixstreams' application."""
