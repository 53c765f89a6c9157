"""quixstreams' own application, where ``transform()`` is edited. Nothing of it is overridden, patched or private.

application  its arguments and callbacks; runs it, and translates its errors
sink         collects the rows, and brings them into the lake before quixstreams commits
waiting      the records that wait of one partition, and how far it is processed
messages     the bytes of the message that is processed
"""
