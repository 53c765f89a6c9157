"""A sink and callbacks of quixstreams' own application, where ``transform()`` needs its loop. Only public names.

Six functions of its objects are replaced: ``row_deserialize`` of topics, ``commit`` of the consumer, ``poll`` and
``flush`` of the producer, ``dataframe`` of the application, and its ``run`` while ``transform()`` builds.
"""
