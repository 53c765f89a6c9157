"""What the connector serves, and to whom."""

import socket
import time
from contextlib import ExitStack
from http.client import HTTPConnection

import pytest

from app.model import TopicPartition
from app.monitoring.metrics import Identity, Live, Metrics
from app.monitoring.monitor import Monitor
from app.monitoring.probes import Health
from dev.server import free_ports


@pytest.fixture(scope="module")
def port() -> int:
    [port] = free_ports(1)
    identity = Identity("sensors", "group", "s3://lake/data/t", "data/t", {"version": "1.2.3"}, 30.0)
    health = Health(loop_seconds=60, clock=time.monotonic)
    metrics = Metrics()
    for number in range(500):
        metrics.begins(TopicPartition("sensors", number), 0)
    Monitor(identity, metrics, health, Live).serve("127.0.0.1", port, ["lake.example"])
    return port


def status(port: int, path: str, host: str, timeout: float = 20) -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("GET", path, headers={"Host": host})
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("path", "code"), [("/", 200), ("/metrics", 200), ("/health/live", 200), ("/health/ready", 503)]
)
@pytest.mark.parametrize("host", ["localhost", "lake.example:8080"])
def test_known_hosts_see_everything(port: int, path: str, code: int, host: str) -> None:
    assert status(port, path, host) == code


@pytest.mark.parametrize(
    ("path", "code"), [("/", 421), ("/metrics", 421), ("/health/live", 200), ("/health/ready", 503)]
)
def test_another_host_sees_the_probes_alone(port: int, path: str, code: int) -> None:
    assert status(port, path, "evil.example") == code


@pytest.mark.parametrize("path", ["/", "/partitions", "/metrics"])
def test_a_probe_is_answered_beside_clients_that_send_many_requests_and_read_no_answer(port: int, path: str) -> None:
    requests = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() * 50
    with ExitStack() as clients:
        for _ in range(300):
            client = clients.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
            client.sendall(requests)
        assert status(port, "/health/live", "localhost", timeout=5) == 200, "in the time that a kubelet gives at most"
