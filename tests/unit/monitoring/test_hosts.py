"""Which host names are answered on which address."""

import socket

import pytest

from app.monitoring.http_server import AllowedHosts

LOOPBACK = ["127.0.0.1", "127.0.0.6", "::1", "::ffff:127.0.0.1"]
OTHER = ["10.1.2.3", "172.17.0.2", "fd00::1", "::ffff:10.1.2.3"]


KNOWN = ["localhost", "LocalHost:8080", "localhost.", "127.0.0.1:8080", "[::1]:8080", "10.9.8.7", socket.gethostname()]
STRANGE = ["evil.example", "evil.example:8080", "localhost.evil.example", "notlocalhost", "", "[::1", ":80"]
OF_A_SERVICE = ["sink.lake.svc.cluster.local:8080", "sink-acme.deployments.example.com", "sink", "10.1.2.3"]


@pytest.mark.parametrize(
    ("addresses", "hosts", "is_allowed"),
    [(LOOPBACK, STRANGE, False), (LOOPBACK, [None, *KNOWN], True), (OTHER, OF_A_SERVICE, True)],
    ids=["on the loopback other names", "on the loopback addresses and own names", "elsewhere any name"],
)
def test_what_is_answered(addresses: list[str], hosts: list[str | None], is_allowed: bool) -> None:
    found = {(host, address): AllowedHosts().allow(host, address) for host in hosts for address in addresses}
    assert found == dict.fromkeys(found, is_allowed)


@pytest.mark.parametrize("address", [*LOOPBACK, *OTHER])
def test_names_of_the_user_are_checked_everywhere(address: str) -> None:
    allowed = AllowedHosts(["Status.Example.com", "sink"])
    assert all(
        allowed.allow(host, address) for host in ["status.example.com:443", "SINK:8080", "localhost", "10.1.2.3"]
    )
    assert not allowed.allow("evil.example", address)
    assert not allowed.allow("x.status.example.com", address)
