"""Headers of messages, also of those whose names are not UTF-8."""

from operator import methodcaller
from typing import Any

import pyarrow as pa

from app.model import Message

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))

# Called in any other way, Python's interpreter looks at what came back, and not at the error that came with it.
_headers = methodcaller("headers")
UNKNOWN_NAME = "\ufffd"  # Unicode's own sign for what cannot be read


def headers_of(message: Message) -> list[tuple[str, bytes]] | None:
    """The headers of a message; to be asked for here and nowhere else, as long as nobody has.

    For a name that is not UTF-8 Kafka's client raises, and leaves a hole in its place that ends the process when
    something looks at it later. Such a name is replaced; its value stays.
    """
    try:
        headers: Any = _headers(message)
    except SystemError:
        headers = _headers(message)
        readable = [(UNKNOWN_NAME if _has_hole(header) else header[0], header[1]) for header in headers]
        message.set_headers(readable)
        return readable
    known: list[tuple[str, bytes]] | None = headers
    return known


def _has_hole(header: Any) -> bool:
    return repr(header).startswith("(<NULL>")  # the one way to see it that is safe
