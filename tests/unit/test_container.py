"""What is said of an address of this machine, inside a container and outside."""

import pytest

from app.container import with_own_address
from app.errors import RetryableError
from app.service.lake import new_catalog, new_store
from tests.support.environment import BROKER_ALONE, load

OWN = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("localhost:9092", "localhost"),
        ("kafka:9092,127.0.0.1:9092", "127.0.0.1"),
        ("http://[::1]:9000/bucket", "::1"),
        ("HTTPConnectionPool(host='localhost', port=9000)", "localhost"),
        ("http://LOCALHOST:9000.", "LOCALHOST"),
        ("Failed at localhost.", "localhost"),
    ],
)
def test_inside_a_container_localhost_is_the_container(monkeypatch: pytest.MonkeyPatch, text: str, own: str) -> None:
    monkeypatch.setattr("app.container.is_container", lambda: True)
    assert with_own_address("Check X", text) == (
        f"Check X. {own} is this container itself: for a server on its host use host.docker.internal, "
        "or start the container with --network host"
    )


@pytest.mark.parametrize("text", ["kafka:9092", "localhost.example.com:9092", "my-localhost:1", "10.127.0.1:1", ""])
def test_another_address_and_one_outside_a_container_is_a_machine(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    assert with_own_address("Check X", "localhost:9092") == "Check X"
    monkeypatch.setattr("app.container.is_container", lambda: True)
    assert with_own_address("Check X", text) == "Check X"


@pytest.mark.parametrize(
    "variables",
    [
        {"S3_BUCKET": "lake", "AWS_ENDPOINT_URL": OWN, "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"},
        {
            "STORAGE_URL": "az://lake",
            "AZURE_STORAGE_ACCOUNT": "account",
            "AZURE_STORAGE_KEY": "a2V5",
            "AZURE_ENDPOINT_URL": f"{OWN}/account",
        },
        {"STORAGE_URL": "file:///lake", "CATALOG_URL": OWN},
    ],
    ids=["s3", "azure", "catalog"],
)
def test_a_system_that_does_not_answer_there_is_explained(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    monkeypatch.setattr("app.container.is_container", lambda: True)
    settings = load(BROKER_ALONE, **variables)
    catalog = new_catalog(settings, new_store(settings))
    with pytest.raises(RetryableError) as caught:
        catalog.check() if catalog else new_store(settings).connect("data/t/")
    assert "127.0.0.1 is this container itself" in caught.value.hint
