"""The quixstreams side: poll, buffer, flush, assignment, checkpoint, pause."""
