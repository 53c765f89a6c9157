"""Creates descriptors for Protobuf schemas of a registry. protoc compiles schemas that are texts.

An attacker may have written a schema. Therefore memory, time and output of protoc are limited. A schema can import only
files of the import folders, because protoc refuses absolute paths and ``..`` in a path.
"""

import base64
import re
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from os import fdopen, memfd_create
from pathlib import Path
from secrets import token_hex
from subprocess import TimeoutExpired, run
from typing import Any, Final

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from app.errors import RetryableError, cut, one_line
from app.reason_texts import Reason

# Limits of processor time in seconds, memory in kB, output in blocks of 512 bytes. A text in AWS Glue has up to 170 kB.
_LIMITS: Final = f"ulimit -S -t 3; ulimit -v {40 << 10}; ulimit -f {4 << 10}; ulimit -c 0"
_SECONDS, _LONGEST_PACKAGE = 10.0, 511  # 511 characters is also protoc's limit
_SCRIPTS, _PACKAGES = map(sysconfig.get_path, ("scripts", "purelib"))
_COMMAND: Final = (
    *("/bin/sh", "-c", f'{_LIMITS}; exec "$0" "$@"', f"{_SCRIPTS}/protoc"),
    *("-Ithe text=/dev/stdin", f"-I{Path(__file__).parent}/imports", f"-Igoogle/type={_PACKAGES}/google/type"),
    *("the text", "--include_imports", "-o/dev/stdout"),
)
_OF_MACHINE: Final = (2, 126, 127, -1, -2, -9, -15)  # exit codes after an error of the shell, or after a signal
_IS_MAP: Final = f"is_map_{token_hex()}"  # random, so that an attacker cannot guess this name
_GIVEN: Final = "google/(protobuf|type)/|metadata/metadata|additionalTypes/decimal"  # available imports
# Corrections of texts that AWS's serializer writes for AWS's parser: it omits options of other files, but no imports.
_OF_AWS: Final = {
    r"^ +option map_entry = true;$": f'reserved "{_IS_MAP}";',  # protoc refuses this option in a text
    r"(?<=[\s\[])metadata\.(metadata_(key|value))(?= =)": r"(.metadata.\1)",
    rf"\bimport\s+(\w+\s+)?['\"](?!{_GIVEN})[^'\"\n]*['\"]\s*;": "",
}


def descriptors(schema: str) -> Sequence[FileDescriptorProto]:
    """Parse a descriptor in base64, and return its file. For a text, return the files that ``compiled`` returns."""
    try:
        file = FileDescriptorProto.FromString(base64.b64decode(schema, validate=True))
    except (ValueError, DecodeError):
        return compiled(schema)
    if len(file.package) > _LONGEST_PACKAGE:
        raise ValueError(Reason("the name of its package is too long"))
    return [file]


def compiled(text: str) -> Sequence[FileDescriptorProto]:
    """Compile a text with protoc. Return the imported files, and then the file of the text.

    Raises:
        ValueError: The schema cannot be used. The message contains the reason.
        RetryableError: This machine cannot run protoc now.
    """
    for written, ours in _OF_AWS.items():
        text = re.sub(written, ours, text, flags=re.MULTILINE)
    data = text.encode(errors="replace")
    try:
        with fdopen(memfd_create("made"), "rb") as made, fdopen(memfd_create("errors"), "rb") as errors:
            done = run(_COMMAND, input=data, stdout=made, stderr=errors, timeout=_SECONDS, check=False, env={}, cwd="/")
            errors.seek(0)
            code, message = done.returncode, one_line(errors.read(1_000).decode(errors="replace"))
            files = [*FileDescriptorSet.FromString(b"" if code else made.read()).file]
    except OSError as error:
        code, message = _OF_MACHINE[0], str(error)
    except (TimeoutExpired, DecodeError) as error:
        code, message = 1, type(error).__name__
    if code in _OF_MACHINE:
        raise RetryableError("running protoc", f"it ended with {code}: {message}")
    if code:
        raise ValueError(Reason("protoc cannot read its schema").also("", f": {cut(message, 300) or code}"))
    for kind in nested(files[-1].message_type, "nested_type"):
        kind.options.map_entry = kind.options.map_entry or _IS_MAP in kind.reserved_name
    return files


def nested(kinds: Iterable[Any], within: str) -> Iterator[Any]:
    for kind in kinds:
        yield kind
        yield from nested(getattr(kind, within), within)
