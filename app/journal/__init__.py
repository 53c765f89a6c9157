"""Exactly once: which member may write which partition, and which offsets are in the table."""
