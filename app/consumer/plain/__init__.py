"""The connector's own loop, where ``transform()`` needs nothing of the one of quixstreams."""
