"""Three places list all settings: the code, ``dotenv.example`` and ``docs/settings.md``.

Here they are held together. Whoever reads one of them may rely on it. The README repeats rows of the page. The form of
Quix Cloud has the settings that people choose first.
"""

import io
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args
from unittest.mock import patch

import pytest
from dotenv import dotenv_values

from app.config.memory import ROOMY_CONTAINER_MB
from app.config.settings import DEFAULT_PREFIX, VARIABLES, load_settings

REPO = Path(__file__).parents[2]
LIBRARY = json.loads((REPO / "library.json").read_text())
README = (REPO / "README.md").read_text()
PAGE = (REPO / "docs" / "settings.md").read_text()
DOTENV = (REPO / "dotenv.example").read_text()

# Their default depends on where the connector runs. The form must leave it out, for it sends what it shows.
FITTED = {"S3_PREFIX": DEFAULT_PREFIX}
# In the image the port is to be reached from outside the container.
OF_THE_IMAGE = {"HTTP_HOST": "0.0.0.0"}  # noqa: S104
LONGEST_LABEL = 100
# What a first run needs, with values to be replaced.
FILLED_IN = {"input": "sensor-data", "S3_BUCKET": "my-lake", "KAFKA_BOOTSTRAP_SERVERS": "localhost:9092"}


_ROW = r"^\| `(\w+)` \| (.+?) \| (.+?) \|$"


@dataclass(frozen=True)
class Setting:
    """One variable as one of the documents has it."""

    default: str | None
    options: tuple[str, ...] = ()
    required: bool = False
    description: str = ""


def in_code() -> dict[str, Setting]:
    settings = {}
    for variable, field in VARIABLES.items():
        default = field.default
        text = f"{default:g}" if isinstance(default, float) else str(default)
        text = text.lower() if isinstance(default, bool) else text
        words = [word for part in (field.annotation, *get_args(field.annotation)) for word in get_args(part)]
        options = ("true", "false") if field.annotation is bool else tuple(w for w in words if isinstance(w, str))
        settings[variable] = Setting(None if default in (None, "", (), {}) else text, options)
    return settings


def in_form() -> dict[str, Setting]:
    return {
        variable["Name"]: Setting(
            variable.get("DefaultValue"),
            tuple(option["value"] for option in variable.get("options", [])),
            variable["Required"],
            variable["Description"],
        )
        for variable in LIBRARY["Variables"]
    }


def in_dotenv() -> dict[str, Setting]:
    entries = re.findall(r"((?:^# .*\n)+)^#?(\w+)=(.*)$", DOTENV, re.MULTILINE)
    return {name: dotenv_entry(comment, value) for comment, name, value in entries}


def dotenv_entry(comment: str, value: str) -> Setting:
    lines = (line.removeprefix("# ") for line in comment.splitlines() if not line.startswith("# ---"))
    text, _, options = " ".join(lines).partition(". (")
    is_option = options.endswith(")")
    return Setting(
        value or None,
        tuple(options.removesuffix(")").split(", ")) if is_option else (),
        description=f"{text}." if is_option else text,
    )


def in_page() -> dict[str, Setting]:
    rows = re.findall(_ROW, PAGE, re.MULTILINE)
    return {name: page_row(default, meaning) for name, default, meaning in rows}


def page_row(default: str, meaning: str) -> Setting:
    text, _, options = meaning.removeprefix("**Required.** ").partition(" Options: ")
    return Setting(
        None if default == "-" else default.strip("`"),
        tuple(re.findall(r"`([^`]+)`", options)),
        meaning.startswith("**Required.**"),
        text.replace("`", ""),
    )


CODE, FORM, DOTENV_ENTRIES, ROWS = in_code(), in_form(), in_dotenv(), in_page()
USERS = {name: setting for name, setting in CODE.items() if not name.startswith("Quix__")}


@pytest.mark.parametrize("document", [in_dotenv, in_page])
def test_every_document_has_every_variable_and_no_other(document: Any) -> None:
    assert set(document()) == set(USERS)


def test_no_variable_is_written_down_twice() -> None:
    assert len(re.findall(r"^#?\w+=", DOTENV, re.MULTILINE)) == len(USERS)
    assert len(re.findall(_ROW, PAGE, re.MULTILINE)) == len(USERS)


def test_the_documents_follow_one_order() -> None:
    assert list(DOTENV_ENTRIES) == list(ROWS)


@pytest.mark.parametrize("name", FORM)
def test_a_field_of_the_form_has_a_short_label(name: str) -> None:
    label = FORM[name].description
    assert name in USERS
    assert label.endswith(".")
    assert ". " not in label, "one sentence"
    assert len(label) <= LONGEST_LABEL
    assert FORM[name].default or "(empty: " in label, "a field without a default says what empty means"


@pytest.mark.parametrize("text", [LIBRARY["shortDescription"], README, PAGE], ids=["form", "README", "page"])
def test_who_misses_a_field_of_the_form_learns_where_the_others_are(text: str) -> None:
    assert "as an environment variable" in " ".join(text.split())


@pytest.mark.parametrize("name", USERS)
def test_defaults(name: str) -> None:
    default = CODE[name].default
    assert name not in FORM or FORM[name].default == default
    assert ROWS[name].default == FITTED.get(name, default)
    assert DOTENV_ENTRIES[name].default == FILLED_IN.get(name, FITTED.get(name, default))


@pytest.mark.parametrize(("name", "default"), OF_THE_IMAGE.items())
def test_the_image_has_defaults_of_its_own(name: str, default: str) -> None:
    assert re.search(rf"^ +{name}={re.escape(default)} ", (REPO / "Dockerfile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("name", FITTED)
def test_a_fitted_default_is_explained(name: str) -> None:
    assert f"Empty: {FITTED[name]}" in ROWS[name].description
    assert name not in FORM or f"(empty: {FITTED[name]}" in FORM[name].description


def test_fitted_defaults_are_those_outside_the_platform() -> None:
    with patch.dict(os.environ, FILLED_IN, clear=True):
        settings = load_settings()
    assert settings.root == FITTED["S3_PREFIX"]


@pytest.mark.parametrize("name", USERS)
def test_options(name: str) -> None:
    assert ROWS[name].options == DOTENV_ENTRIES[name].options == CODE[name].options
    assert name not in FORM or FORM[name].options == CODE[name].options


@pytest.mark.parametrize("name", USERS)
def test_descriptions_and_required_flags(name: str) -> None:
    assert ROWS[name].description == DOTENV_ENTRIES[name].description
    assert ROWS[name].required == (name in FORM and FORM[name].required)


def test_the_readme_repeats_rows_of_the_page() -> None:
    rows = [row[0] for row in re.finditer(_ROW, README, re.MULTILINE)]
    assert 5 <= len(rows) <= 8
    assert rows == [row for row in PAGE.splitlines() if row in rows]


def test_the_form_demands_the_topic_alone() -> None:
    assert [name for name, setting in FORM.items() if setting.required] == ["input"]


@pytest.mark.parametrize("variable", LIBRARY["Variables"], ids=lambda variable: variable["Name"])
def test_input_types(variable: dict[str, Any]) -> None:
    name = variable["Name"]
    assert variable["Type"] == "EnvironmentVariable"
    secrets = {variable for variable, field in VARIABLES.items() if not field.repr}
    if name in secrets:
        expected = "Secret"
    elif name == "input":
        expected = "InputTopic"
    else:
        expected = "Options" if CODE[name].options else "FreeText"
    assert variable["InputType"] == expected
    assert all(option["label"] == option["value"] for option in variable.get("options", []))


def test_variables_of_the_platform_have_their_own_table() -> None:
    section = PAGE.split("## Set by Quix Cloud")[1].split("\n#")[0]
    names = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert sorted(names) == sorted(set(CODE) - set(USERS))


def test_dotenv_example_starts_as_it_is() -> None:
    variables = {name: value or "" for name, value in dotenv_values(stream=io.StringIO(DOTENV)).items()}
    assert variables == FILLED_IN
    with patch.dict(os.environ, variables, clear=True):
        assert load_settings().storage.uri == "s3://my-lake"


def test_dotenv_example_means_the_same_to_docker() -> None:
    """Docker takes a line as it is: quotes and comments behind a value would become part of it."""
    assignments = [line for line in DOTENV.splitlines() if re.match(r"#?\w+=", line)]
    assert not [line for line in assignments if re.search(r"=.*[\"'# ]", line)]


def test_the_defaults_of_the_form_start_on_the_platform() -> None:
    shown = {name: setting.default for name, setting in FORM.items() if setting.default}
    limits = {"Quix__Deployment__Limits__Memory": str(LIBRARY["DeploySettings"]["MemoryInMb"])}
    platform = {
        "Quix__Sdk__Token": "token",
        "Quix__Portal__Api": "https://portal.example.com",
        "Quix__Workspace__Id": "acme-prod",
        "Quix__BlobStorage__Connection__Json": json.dumps(
            {
                "Provider": "S3Compatible",
                "S3Compatible": {
                    "BucketName": "quix-lake",
                    "AccessKeyId": "key",
                    "SecretAccessKey": "secret",
                    "ServiceUrl": "https://gateway.example.com",
                },
            }
        ),
    }
    with patch.dict(os.environ, {**shown, **limits, **platform}, clear=True):
        settings = load_settings()
    assert settings.storage.uri == "s3://quix-lake"
    assert settings.root == "acme-prod/data-lake/time-series"
    assert settings.memory.shortage is None


def test_the_form_of_quix_cloud() -> None:
    deploy = LIBRARY["DeploySettings"]
    assert LIBRARY["libraryItemId"] == "quix-ts-datalake-sink"
    assert LIBRARY["language"] == "Python"
    assert deploy["DeploymentType"] == "Service"
    assert deploy["MemoryInMb"] >= ROOMY_CONTAINER_MB
    assert deploy["CpuMillicores"] >= 1000
    assert deploy["Replicas"] == 1
    assert deploy["PublicAccess"] is False
    assert deploy["ValidateConnection"] is True
    assert deploy["blobStorage"] == {"bind": True}


@pytest.mark.parametrize("field", ["DefaultFile", "EntryPoint", "RunEntryPoint", "IconFile"])
def test_files_named_in_the_form_exist_in_that_very_case(field: str) -> None:
    assert LIBRARY[field] in [entry.name for entry in REPO.iterdir()]
