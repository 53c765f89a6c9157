"""Consumes from Kafka. ``plain`` contains the connector's own loop, and ``framework`` the sink for quixstreams."""
