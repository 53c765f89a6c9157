"""Kafka's side: ``plain``, the connector's own loop, and ``framework``, parts for the application of quixstreams."""
