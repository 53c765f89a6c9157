"""A sink and callbacks for quixstreams' application, if ``transform()`` needs the loop of quixstreams.

Public names of quixstreams are enough. Six functions are replaced: ``row_deserialize`` of topics, ``commit`` of the
consumer, ``poll`` and ``flush`` of the producer, ``dataframe`` and ``run`` of the application.
"""
