"""Which host names are answered on which address."""

import socket

import pytest

from app.monitoring.hosts import AllowedHosts

LOOPBACK = ["127.0.0.1", "127.0.0.6", "::1", "::ffff:127.0.0.1"]
OTHER = ["10.1.2.3", "172.17.0.2", "fd00::1", "::ffff:10.1.2.3"]


@pytest.mark.parametrize("address", LOOPBACK)
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "localhost.evil.example", "notlocalhost", "", "[::1", ":80"]
)
def test_on_the_loopback_other_names_are_refused(host: str, address: str) -> None:
    assert not AllowedHosts().allow(host, address)


@pytest.mark.parametrize("address", LOOPBACK)
@pytest.mark.parametrize(
    "host",
    [
        None,
        "localhost",
        "LocalHost:8080",
        "localhost.",
        "127.0.0.1:8080",
        "[::1]:8080",
        "10.9.8.7",
        socket.gethostname(),
    ],
)
def test_on_the_loopback_addresses_and_own_names_are_answered(host: str | None, address: str) -> None:
    assert AllowedHosts().allow(host, address)


@pytest.mark.parametrize("address", OTHER)
@pytest.mark.parametrize(
    "host", ["sink.lake.svc.cluster.local:8080", "sink-acme.deployments.example.com", "sink", "10.1.2.3"]
)
def test_elsewhere_a_service_has_any_name(host: str, address: str) -> None:
    assert AllowedHosts().allow(host, address)


@pytest.mark.parametrize("address", [*LOOPBACK, *OTHER])
def test_names_of_the_user_are_checked_everywhere(address: str) -> None:
    allowed = AllowedHosts(["Status.Example.com", "sink"])
    assert all(
        allowed.allow(host, address) for host in ["status.example.com:443", "SINK:8080", "localhost", "10.1.2.3"]
    )
    assert not allowed.allow("evil.example", address)
    assert not allowed.allow("x.status.example.com", address)
