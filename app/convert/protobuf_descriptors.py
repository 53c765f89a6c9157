"""Makes descriptors of the schemas in Protobuf that a registry has; of a text alone by protoc.

Who registers schemas may be an enemy. Protoc gets little memory and time. It opens no file but the text and those in
the folders that are named here: it refuses absolute paths, and ``..`` in a path.
"""

import base64
import re
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from subprocess import SubprocessError, run
from typing import Any, Final

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from app.errors import cut, one_line
from app.reasons import Reason

_SECONDS, _KILOBYTES = 10.0, 128 << 10  # enough for 500 kB of text, three times what AWS Glue takes
_SCRIPTS, _PACKAGES = map(sysconfig.get_path, ("scripts", "purelib"))
_COMMAND: Final = (
    *("/bin/sh", "-c", f'ulimit -c 0; ulimit -v {_KILOBYTES}; exec "$0" "$@"', f"{_SCRIPTS}/protoc"),
    *("-Ithe text=/dev/stdin", f"-I{Path(__file__).parent}/imports", f"-Igoogle/type={_PACKAGES}/google/type"),
    *("the text", "--include_imports", "-o/dev/stdout"),
)
_IS_MAP: Final = "no_standard_descriptor_accessor"  # in place of an option that protoc takes from nobody


def descriptors(schema: str) -> Sequence[FileDescriptorProto]:
    """Returns the file behind those that it imports, of its text or of its descriptor in base64.

    Raises:
        ValueError: it is of no use, and why.
    """
    try:
        return [FileDescriptorProto.FromString(base64.b64decode(schema, validate=True))]
    except (ValueError, DecodeError):  # it is a text; that of AWS's serializer is for no parser but its own
        text = re.sub(r"\bmetadata\.(metadata_(key|value))(?= =)", r"(metadata.\1)", schema)
        data = re.sub(r"\bmap_entry\b", _IS_MAP, text).encode(errors="replace")
    try:
        done = run(_COMMAND, input=data, capture_output=True, timeout=_SECONDS, check=True, env={}, cwd="/")
        found = [*FileDescriptorSet.FromString(done.stdout).file]
    except (OSError, SubprocessError, DecodeError) as error:
        told = (getattr(error, "stderr", None) or str(error).encode()).decode(errors="replace")
        raise ValueError(Reason("protoc cannot read its schema").also("", f": {cut(one_line(told), 300)}")) from error
    for each in nested(found[-1].message_type, "nested_type"):
        each.options.map_entry = each.options.map_entry or each.options.HasField(_IS_MAP)
    return found


def nested(kinds: Iterable[Any], within: str) -> Iterator[Any]:
    for each in kinds:
        yield each
        yield from nested(getattr(each, within), within)
