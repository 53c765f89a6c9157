"""HTTP headers: checks that a secret fits into a header, and parses ``retry-after``."""

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

_ONE_WORD = re.compile(r"[\x21-\x7e]+")
_SECONDS = re.compile(r"[0-9]{1,6}")


def fits_header(value: str) -> bool:
    """Whether a header can contain this key or token, which must be visible ASCII characters without blanks.

    HTTP clients refuse other values, and their error message quotes the value. Therefore callers check secrets first.
    """
    return _ONE_WORD.fullmatch(value) is not None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Returns the seconds to wait from the ``retry-after`` header (RFC 9110, 10.2.3); ``None`` without a usable header.

    A date is compared with the answer's ``date`` header, because both headers are from the server's clock.
    """
    value = headers.get("retry-after", "").strip()
    if _SECONDS.fullmatch(value):
        return float(value)
    try:
        return max(0.0, (parsedate_to_datetime(value) - parsedate_to_datetime(headers.get("date", ""))).total_seconds())
    except (ValueError, TypeError):  # not a date, or only one of the two dates has a zone
        return None
