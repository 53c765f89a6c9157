"""HTTP headers: checks that a secret fits into one, and reads ``retry-after``."""

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

_ONE_WORD = re.compile(r"[\x21-\x7e]+")
_SECONDS = re.compile(r"[0-9]{1,6}")


def fits_header(value: str) -> bool:
    """Whether a key or token can travel in a header: visible ASCII without blanks.

    HTTP clients refuse other values with an error that quotes the value, so callers check secrets first.
    """
    return _ONE_WORD.fullmatch(value) is not None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Returns the seconds to wait as the ``retry-after`` header asks (RFC 9110, 10.2.3), or ``None`` if it is unusable.

    A date is compared with the answer's own ``date`` header, because the two come from the same clock.
    """
    value = headers.get("retry-after", "").strip()
    if _SECONDS.fullmatch(value):
        return float(value)
    try:
        return max(0.0, (parsedate_to_datetime(value) - parsedate_to_datetime(headers.get("date", ""))).total_seconds())
    except (ValueError, TypeError):  # not a date, or one with and one without a zone
        return None
