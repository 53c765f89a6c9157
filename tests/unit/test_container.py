"""What is said of an address of this machine, inside a container and outside."""

import pytest

from app.container import with_own_address


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
def test_another_address_is_another_machine(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("app.container.is_container", lambda: True)
    assert with_own_address("Check X", text) == "Check X"


def test_outside_a_container_localhost_is_the_machine() -> None:
    assert with_own_address("Check X", "localhost:9092") == "Check X"
