"""``make generate``: writes what follows from the settings and the tests: pages' tables, dotenv.example, and the form.

The text of a setting is below its field in ``app/config``. ``outdated()`` is for the test that nobody forgot this.
"""

import json
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo

from app.config.fields import options
from app.config.settings import VARIABLES, Settings
from app.parts.schema.json_schema import shown_default
from dev import support
from dev.connector import REPO

PLATFORM = "Quix__"
REQUIRED = "input"
# The fields of the form, in the order in which people decide. Quix Cloud sets the broker.
FORM = (
    *("input", "TABLE_NAME", "HIVE_COLUMNS", "TIMESTAMP_COLUMN"),
    *("AUTO_OFFSET_RESET", "CONSUMER_GROUP", "COMMIT_INTERVAL", "COMPACT"),
    *("S3_BUCKET", "S3_PREFIX", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_ENDPOINT_URL"),
    *("S3_ROLE_ARN", "S3_ROLE_EXTERNAL_ID"),
    *("KAFKA_KEY_DESERIALIZER", "KAFKA_VALUE_DESERIALIZER"),
    *("SCHEMA_REGISTRY_URL", "SCHEMA_REGISTRY_USERNAME", "SCHEMA_REGISTRY_PASSWORD"),
    *("CATALOG_URL", "CATALOG_AUTH_TOKEN", "CATALOG_NAMESPACE", "LOGLEVEL"),
)
LONGEST_IN_FORM = 150  # characters of a description
# What a first run needs, with values to be replaced.
FILLED_IN = {REQUIRED: "sensor-data", "S3_BUCKET": "my-lake", "KAFKA_BOOTSTRAP_SERVERS": "localhost:9092"}
DOTENV_HEAD = """\
# Copy to .env for local runs, or hand it to the container: docker run --env-file .env …
# A line that begins with # shows the default of its variable. Nothing after the = means that there is no default.
# Write values without quotes, and write no comments after them: Docker takes the line as it is.
# In a container localhost is the container itself. For a server on its host write host.docker.internal instead, or
# start the container with --network host: see docs/troubleshooting.md.
"""
GENERATED = "<!-- The rest of this page is generated from the settings. -->\n"
GENERATED_TABLE = "<!-- The rest of this page is generated from what the tests use. -->\n"

Fields = Mapping[str, FieldInfo]


def main() -> int:
    """Write the files that are out of date."""
    for path, text in outdated().items():
        path.write_text(text, encoding="utf-8")
        print(f"written: {path.relative_to(REPO)}")
    return 0


def outdated() -> dict[Path, str]:
    """Return the files that do not say what the settings are, each with its new text."""
    made = {
        "docs/settings.md": _page,
        "docs/compatibility.md": _supported,
        "deploy/sample/README.md": _sample,
        "dotenv.example": _dotenv,
        "library.json": _form,
    }
    old = {REPO / name: (REPO / name).read_text(encoding="utf-8") for name in made}
    new = {path: make(text) for (path, text), make in zip(old.items(), made.values(), strict=True)}
    return {path: text for path, text in new.items() if text != old[path]}


def sections() -> Iterator[tuple[str, Fields]]:
    """Yield each section's name with its fields by variable, without those that the platform alone sets."""
    for area in reversed(Settings.__bases__):
        fields = [Settings.model_fields[name] for name in area.__annotations__]
        own = {str(field.validation_alias): field for field in fields}
        yield area.__name__, {name: field for name, field in own.items() if not name.startswith(PLATFORM)}


def row(name: str, field: FieldInfo) -> str:
    """Return the line of a variable in a table of Markdown."""
    default, text = shown_default(field), _text(field)
    words = [f"`{word}`" for word in options(field)]
    more = "" if all(word in text for word in words) else f" Options: {', '.join(words)}."
    required = "**Required.** " if name == REQUIRED else ""
    return f"| `{name}` | {f'`{default}`' if default else ''} | {required}{text}{more} |"


def _text(field: FieldInfo) -> str:
    return " ".join((field.description or "").split())


def _page(old: str) -> str:
    parts = [old.partition(GENERATED)[0], GENERATED]
    for section, fields in sections():
        parts.append(f"\n## {section}\n\n| Variable | Default | Meaning |\n|---|---|---|\n")
        parts.extend(f"{row(*each)}\n" for each in fields.items())
    return "".join(parts)


def _supported(old: str) -> str:
    head, mark, _ = old.partition(GENERATED_TABLE)
    return f"{head}{mark}\n{support.table()}"


def _sample(old: str) -> str:
    """Put a row for each field of the form in place of those that are there."""
    rows = "".join(f"{row(name, VARIABLES[name])}\n" for name in FORM)
    return re.sub(r"(?:^\| `.+\n)+", lambda _: rows, old, flags=re.MULTILINE)


def _dotenv(_: str) -> str:
    parts = [DOTENV_HEAD]
    for section, fields in sections():
        lines = [line for each in fields.items() for line in _entry(*each)]
        parts.append(f"\n# --- {section}\n" + "\n".join(lines) + "\n")
    return "".join(parts)


def _entry(name: str, field: FieldInfo) -> list[str]:
    words = options(field)
    text = _text(field).replace("`", "") + (f" ({', '.join(words)})" if words else "")
    comment = textwrap.wrap(text, 120, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)
    value = FILLED_IN.get(name)
    return [*comment, f"{name}={value}" if value else f"#{name}={shown_default(field)}"]


def _form(old: str) -> str:
    library = json.loads(old)
    library["Variables"] = [_input(name, VARIABLES[name]) for name in FORM]
    return json.dumps(library, indent=2, ensure_ascii=False) + "\n"


def _input(name: str, field: FieldInfo) -> dict[str, Any]:
    words = options(field)
    if name == REQUIRED:
        kind = "InputTopic"
    elif not field.repr:
        kind = "Secret"
    else:
        kind = "Options" if words else "FreeText"
    default = shown_default(field)
    description = _text(field).replace("`", "")
    while len(description) > LONGEST_IN_FORM:  # the pages have the sentences that are left out
        description = description[: description.rindex(". ") + 1]
    return {
        "Name": name,
        "Type": "EnvironmentVariable",
        "InputType": kind,
        "Description": description,
        **({"DefaultValue": default} if default else {}),
        "Required": name == REQUIRED,
        **({"options": [{"label": word, "value": word} for word in words]} if words else {}),
    }


if __name__ == "__main__":
    sys.exit(main())
