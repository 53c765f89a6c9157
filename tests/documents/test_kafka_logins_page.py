"""The examples of docs/kafka-logins.md are settings that load, and its table is that of the code."""

import re
from pathlib import Path

import pytest
import trustme

from app.config.kafka_login import _NEEDED
from app.kafka.connection import check_properties
from app.service.kafka_client import kafka_connection
from tests.support.environment import load

PAGE = (Path(__file__).parents[2] / "docs" / "kafka-logins.md").read_text()
BLOCKS = dict(re.findall(r"^## ([^\n]+)\n(?:(?!^## ).)*?^```ini\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    certificate = trustme.CA().issue_cert("connector@example.com")
    for name in ("ca.pem", "service.cert"):
        certificate.cert_chain_pems[0].write_to_path(str(tmp_path / name))
    certificate.private_key_pem.write_to_path(str(tmp_path / "service.key"))
    return tmp_path


@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
def test_every_example_loads(block: str, certificates: Path) -> None:
    lines = block.replace("/certificates", str(certificates)).splitlines()
    settings = load(**dict(line.split("=", 1) for line in lines))
    check_properties(settings.client_properties, {})
    assert kafka_connection(settings) is not None


def test_there_is_an_example_for_each_kind_of_cluster() -> None:
    assert len(BLOCKS) == 8


def test_the_table_has_each_refused_property() -> None:
    table = PAGE.split("## Other settings of the client")[1].split("\n## ")[0]
    cells = " ".join(re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE))
    assert set(re.findall(r"`([^`]+)`", cells)) == set(_NEEDED)
