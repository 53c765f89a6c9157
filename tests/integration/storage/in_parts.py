"""Files that are large enough to go in parts, where parts are as small as S3 allows."""

import random

from app.storage.s3.client import Limits

_PART = 5 << 20
LARGE = random.Random(7).randbytes(2 * _PART + 100)  # noqa: S311 - two whole parts and a rest
SMALL_PARTS = Limits(part_bytes=_PART, largest_single=_PART)
