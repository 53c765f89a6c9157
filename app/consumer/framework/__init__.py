"""The sink and the callbacks for the quixstreams application, which runs if ``transform()`` needs quixstreams' loop.

This package uses only public names of quixstreams. It replaces six functions: ``row_deserialize`` of topics, ``commit``
of the consumer, ``poll`` and ``flush`` of the producer, ``dataframe`` and ``run`` of the application.
"""
