"""Which names a column of an Iceberg table cannot have."""

_RESERVED = frozenset(
    {"_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"}
)


def refusal_of_name(name: str) -> str | None:
    if "." in name:
        return "has a name with a dot, which Iceberg reads as a path"
    return "has a name that Iceberg reserves" if name.lower() in _RESERVED else None
