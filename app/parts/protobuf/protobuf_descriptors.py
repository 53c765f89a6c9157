"""Makes descriptors of the schemas in Protobuf that a registry has; of a text alone by protoc.

Who registers schemas may be an enemy. Protoc gets little memory and time, and writes little. It opens no file but the
text and those in the folders that are named here: it refuses absolute paths, and ``..`` in a path.
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

# Of the processor; kB; blocks of 512 bytes, for what it writes: enough for 170 kB of text, all that AWS Glue takes.
_LIMITS: Final = f"ulimit -S -t 3; ulimit -v {40 << 10}; ulimit -f {4 << 10}; ulimit -c 0"
_SECONDS, _LONGEST_PACKAGE = 10.0, 511  # protoc takes no longer one: each of its parts may be searched for each type
_SCRIPTS, _PACKAGES = map(sysconfig.get_path, ("scripts", "purelib"))
_COMMAND: Final = (
    *("/bin/sh", "-c", f'{_LIMITS}; exec "$0" "$@"', f"{_SCRIPTS}/protoc"),
    *("-Ithe text=/dev/stdin", f"-I{Path(__file__).parent}/imports", f"-Igoogle/type={_PACKAGES}/google/type"),
    *("the text", "--include_imports", "-o/dev/stdout"),
)
_OF_MACHINE: Final = (2, 126, 127, -1, -2, -9, -15)  # the shell's own, and signals that others send
_IS_MAP: Final = f"is_map_{token_hex()}"  # which nobody else can write
_GIVEN: Final = "google/(protobuf|type)/|metadata/metadata|additionalTypes/decimal"  # imports that protoc has
# What AWS's serializer writes for no parser but its own; it leaves out options of others, and not their imports.
_OF_AWS: Final = {
    r"^ +option map_entry = true;$": f'reserved "{_IS_MAP}";',  # protoc takes the option from nobody
    r"(?<=[\s\[])metadata\.(metadata_(key|value))(?= =)": r"(.metadata.\1)",
    rf"\bimport\s+(\w+\s+)?['\"](?!{_GIVEN})[^'\"\n]*['\"]\s*;": "",
}


def descriptors(schema: str) -> Sequence[FileDescriptorProto]:
    """Returns the file of its descriptor in base64, or what ``compiled`` returns of a text."""
    try:
        file = FileDescriptorProto.FromString(base64.b64decode(schema, validate=True))
    except (ValueError, DecodeError):
        return compiled(schema)
    if len(file.package) > _LONGEST_PACKAGE:
        raise ValueError(Reason("the name of its package is too long"))
    return [file]


def compiled(text: str) -> Sequence[FileDescriptorProto]:
    """Returns the file of this text behind those that it imports.

    Raises:
        ValueError: it is of no use, and why.
        RetryableError: this machine cannot run protoc now.
    """
    for written, ours in _OF_AWS.items():
        text = re.sub(written, ours, text, flags=re.MULTILINE)
    data = text.encode(errors="replace")
    try:
        with fdopen(memfd_create("made"), "rb") as made, fdopen(memfd_create("errors"), "rb") as errors:
            done = run(_COMMAND, input=data, stdout=made, stderr=errors, timeout=_SECONDS, check=False, env={}, cwd="/")
            errors.seek(0)
            code, told = done.returncode, one_line(errors.read(1_000).decode(errors="replace"))
            found = [*FileDescriptorSet.FromString(b"" if code else made.read()).file]
    except OSError as error:
        code, told = _OF_MACHINE[0], str(error)
    except (TimeoutExpired, DecodeError) as error:
        code, told = 1, type(error).__name__
    if code in _OF_MACHINE:
        raise RetryableError("running protoc", f"it ended with {code}: {told}")
    if code:
        raise ValueError(Reason("protoc cannot read its schema").also("", f": {cut(told, 300) or code}"))
    for each in nested(found[-1].message_type, "nested_type"):
        each.options.map_entry = each.options.map_entry or _IS_MAP in each.reserved_name
    return found


def nested(kinds: Iterable[Any], within: str) -> Iterator[Any]:
    for each in kinds:
        yield each
        yield from nested(getattr(each, within), within)
