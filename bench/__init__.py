"""Measures the connector beside the sink that quixstreams ships. ``python -m bench`` runs it."""
