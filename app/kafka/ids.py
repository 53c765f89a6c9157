"""The ids of topics and clusters: offsets mean nothing without them, because another topic may have the same name."""

_ZERO_ID = "A" * 22  # sixteen bytes of zero in Kafka's spelling, from a broker without ids


def known_id(text: str | None) -> str:
    """The id of a topic or a cluster from Kafka; empty for the zero id, which means none."""
    return text if text and text != _ZERO_ID else ""


def ids_differ(one: str, other: str) -> bool:
    """Whether two ids of topics or clusters are known and different."""
    return bool(one and other and one != other)
