"""A sink and callbacks for quixstreams' application, used if ``transform()`` needs its loop. Only public names.

Six functions of its objects are replaced: ``row_deserialize`` of topics, ``commit`` of the consumer, ``poll`` and
``flush`` of the producer, ``dataframe`` of the application, and ``run`` while ``transform()`` builds.
"""
