"""quixstreams' own application, where ``transform()`` is edited. Nothing of it is overridden, patched or private."""
