"""Text that is made to cost time: the work grows with its length, not with the square of it."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CPU_SECONDS = 20  # where the work is the square, each of these takes minutes or hours

TIMES = 'times = ["T0" * 500_000, "2024-01-01T" + "0" * 1_000_000, "2024-01-01T00:00:00." + "1" * 1_000_000]\n'
CASES = {
    "timestamps of rows": TIMES
    + "from app.convert.time_folders import time_parts\n"
    + "from app.bad_records.refusals import BadRowsError\n"
    + "for text in times:\n"
    + "    try:\n        time_parts([text, None, '2024-01-01'])\n"
    + "    except BadRowsError as error:\n        assert list(error.reasons) == [0], error\n"
    + "        assert len(error.reasons[0]) < 200\n"
    + "    else:\n        raise AssertionError(text[:20])\n",
    "timestamps of a column": TIMES
    + "import pyarrow as pa\nfrom app.convert.time_folders import moments_of_column\n"
    + "for text in times:\n    assert moments_of_column(pa.array([text])) is None\n",
    "a column fixed to a timestamp": TIMES
    + "from tests.unit.convert.conversions import fixed, rescued\n"
    + "for text in times:\n    assert rescued(fixed('x:timestamp', {'x': text})) == [{'x': text}]\n",
    "levels of brackets": "from app.convert.json_columns import parse\nimport pyarrow as pa\n"
    + "half = 12 * 2**20  # the largest message there is\n"
    + """for text in (b"[" * half + b"]" * half, b'["' * half + b'"', b"[{}" * half):\n"""
    + """    assert parse([b'{"a":' + text + b"}"], {"a": pa.int64()}) is None\n""",
    "what a message shows of a value": "from app.reason_texts import shown\n"
    + "value = {'a': ['text' * 5_000_000] * 10, 'b': list(range(3_000_000))}\n"
    + "for _ in range(300):\n    assert len(shown(value)) <= 80\n",
}


@pytest.mark.parametrize("program", CASES.values(), ids=CASES.keys())
def test_work_grows_with_the_length(program: str) -> None:
    limited = f"import resource\nresource.setrlimit(resource.RLIMIT_CPU, ({CPU_SECONDS}, {CPU_SECONDS}))\n{program}"
    ended = subprocess.run([sys.executable, "-c", limited], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
