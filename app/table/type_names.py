"""Types by their names in Spark SQL: ``bigint``, ``decimal(10,2)``, ``map<string,array<struct<a:double>>>``."""

import re
from collections.abc import Callable, Mapping

import pyarrow as pa

Types = Mapping[str, pa.DataType]  # types of columns by name

MAX_DIGITS = 38  # digits of a decimal in Spark and most readers

_BY_NAME = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_NAMES = {kind: name for name, kind in _BY_NAME.items()}
_KNOWN = ", ".join([*_BY_NAME, "decimal(p,s)", "array<type>", "struct<name:type,...>", "map<string,type>"])
_MARKS = frozenset("<>(),:")
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DECIMAL = re.compile(r"decimal\s*\(\s*([0-9]+)\s*,\s*([0-9]+)\s*\)", re.IGNORECASE)
# A decimal, a name in backticks (doubled inside), a mark, or anything between marks.
_TOKEN = re.compile(
    rf"\s*({_DECIMAL.pattern}|`(?:[^`]|``)*`|[<>(),:]|[^<>(),:`]+?(?=\s*(?:[<>(),:`]|$)))", re.IGNORECASE
)


def type_name(kind: pa.DataType) -> str:
    """Returns the name of a type, which ``parse_type`` can parse; ``ValueError`` for a type that no column has."""
    if kind in _NAMES:
        return _NAMES[kind]
    if pa.types.is_decimal128(kind) and 0 <= kind.scale <= kind.precision:
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_list(kind):
        return f"array<{type_name(kind.value_type)}>"
    if pa.types.is_map(kind) and kind.key_type == pa.string():
        return f"map<string,{type_name(kind.item_type)}>"
    if pa.types.is_struct(kind) and kind.num_fields:
        return "struct<" + ",".join(f"{_quoted(field.name)}:{type_name(field.type)}" for field in kind) + ">"
    raise ValueError(f"no column can have the type {kind}")


def parts(kind: pa.DataType) -> list[pa.DataType]:
    """Returns the types of a struct's fields, of a list's elements, or of a map's keys and values; else none."""
    if pa.types.is_map(kind):
        return [kind.key_type, kind.item_type]
    return [kind.field(index).type for index in range(kind.num_fields)]


def contains(kind: pa.DataType, is_of: Callable[[pa.DataType], bool]) -> bool:
    """Whether ``is_of`` is true for the type or for a type in it."""
    return is_of(kind) or any(contains(part, is_of) for part in parts(kind))


def scalar_count(kind: pa.DataType) -> int:
    """Returns how many leaf columns a column of this type has in a file."""
    return sum(map(scalar_count, parts(kind))) if pa.types.is_nested(kind) else 1


def parse_type(text: str) -> pa.DataType:
    """Parses the name of a type, ignoring case; ``ValueError`` contains the reason if the name is wrong.

    Field names may differ only in case, because files of other tools contain such fields.
    """
    parser = _Parser(text, fold=lambda name: name)
    kind = parser.type()
    parser.end()
    return kind


def parse_column_types(text: str) -> dict[str, pa.DataType]:
    """Parses columns and their types, as in ``temp:double,price:decimal(10,2),tags:array<string>``.

    Names with one of ``,:<>()`` need backticks. A comma may end the list. A text without any column returns an empty
    dict. ``ValueError`` contains the reason if the text is wrong, also if names differ only in case.
    """
    if not text.strip():
        return {}
    parser = _Parser(text.strip().removesuffix(","))
    fields = parser.fields()
    parser.end()
    return fields


def _quoted(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"


class _Parser:
    """Parses types from a text, token by token. An empty token is the end."""

    def __init__(self, text: str, fold: Callable[[str], str] = str.lower) -> None:
        self._text = text
        self._fold = fold
        self._tokens = [*_tokens(text), ""]
        self._at = 0

    def type(self) -> pa.DataType:
        token = self._next("a type")
        if decimal := _DECIMAL.fullmatch(token):
            return _decimal(*map(int, decimal.groups()))
        match token.lower():
            case name if name in _BY_NAME:
                return _BY_NAME[name]
            case "array" | "map" as kind:
                self._expect("<", f"after {kind}, as in array<string> or map<string,double>")
                if kind == "map" and self.type() != pa.string():
                    raise ValueError(f"the keys of a map must be string, as in map<string,double>, in {self._text!r}")
                if kind == "map":
                    self._expect(",", "after the type of the keys, as in map<string,double>")
                item = self.type()
                self._expect(">", f"after the type of the items of {kind}")
                return pa.map_(pa.string(), item) if kind == "map" else pa.list_(item)
            case "struct":
                self._expect("<", "after struct, as in struct<a:string>")
                fields = self.fields()
                self._expect(">", "after the fields of a struct")
                return pa.struct(list(fields.items()))
        raise ValueError(f"{token!r} is not a type. Types are {_KNOWN}")

    def fields(self) -> dict[str, pa.DataType]:
        fields: dict[str, pa.DataType] = {}
        folded: set[str] = set()
        while True:
            name = self._name()
            if self._fold(name) in folded:
                raise ValueError(f"the name {name!r} occurs twice (upper and lower case count as the same)")
            folded.add(self._fold(name))
            self._expect(":", f"after the name {name!r}")
            fields[name] = self.type()
            if self._tokens[self._at] != ",":
                return fields
            self._at += 1

    def end(self) -> None:
        if token := self._tokens[self._at]:
            raise ValueError(f"{token!r} is unexpected in {self._text!r}")

    def _name(self) -> str:
        token = self._next("a name")
        if token[0] != "`" and not _MARKS.isdisjoint(token):
            raise ValueError(f"a name is missing before {token!r} in {self._text!r}")
        name = token[1:-1].replace("``", "`") if token.startswith("`") else token
        try:
            name.encode()
        except UnicodeEncodeError:
            raise ValueError(f"the name {name!r} is not Unicode") from None
        return name

    def _expect(self, mark: str, where: str) -> None:
        if self._tokens[self._at] != mark:
            raise ValueError(f"{mark!r} is missing {where} in {self._text!r}")
        self._at += 1

    def _next(self, expected: str) -> str:
        token = self._tokens[self._at]
        if not token:
            raise ValueError(f"{expected} is missing at the end of {self._text!r}")
        self._at += 1
        return token


def _decimal(precision: int, scale: int) -> pa.DataType:
    if not (1 <= precision <= MAX_DIGITS and scale <= precision):
        raise ValueError(
            f"decimal({precision},{scale}) is not possible: "
            f"1 to {MAX_DIGITS} digits, at most as many of them after the point"
        )
    return pa.decimal128(precision, scale)


def _tokens(text: str) -> list[str]:
    tokens, at = [], 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"a backtick is not closed in {text!r}")
        tokens.append(match[1])
        at = match.end()
    return tokens
