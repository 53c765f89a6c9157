"""Produces messages whose header names are any bytes, which no client for Python lets anybody do."""

import ctypes
from pathlib import Path

import confluent_kafka

_TOPIC, _VALUE, _FLAGS, _HEADERS, _COPY = 1, 4, 7, 10, 2  # as librdkafka numbers them


def produce_with_header(bootstrap_servers: str, topic: str, value: bytes, name: bytes) -> None:
    """Produce one message with one header, by the client's own library."""
    folder = Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs"
    library = ctypes.CDLL(str(next(folder.glob("librdkafka*"))))
    for function in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_headers_new"):
        getattr(library, function).restype = ctypes.c_void_p
    told = ctypes.create_string_buffer(512)
    settings = ctypes.c_void_p(library.rd_kafka_conf_new())
    library.rd_kafka_conf_set(settings, b"bootstrap.servers", bootstrap_servers.encode(), told, len(told))
    client = ctypes.c_void_p(library.rd_kafka_new(0, settings, told, len(told)))
    headers = ctypes.c_void_p(library.rd_kafka_headers_new(1))
    library.rd_kafka_header_add(headers, name, ctypes.c_ssize_t(len(name)), b"v", ctypes.c_ssize_t(1))
    arguments = (_TOPIC, topic.encode(), _VALUE, value, ctypes.c_size_t(len(value)), _FLAGS, _COPY, _HEADERS, headers)
    assert library.rd_kafka_producev(client, *arguments, 0) == 0, told.value
    assert library.rd_kafka_flush(client, 30_000) == 0
    library.rd_kafka_destroy(client)
