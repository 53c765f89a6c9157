"""The connector's own loop, used if ``transform()`` does not need the loop of quixstreams."""
