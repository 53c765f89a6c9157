"""Kafka in a container, for machines with a Docker engine."""

from collections.abc import Iterator
from contextlib import contextmanager

from docker.errors import DockerException  # type: ignore[import-untyped]
from requests.exceptions import RequestException
from testcontainers.core.container import DockerContainer
from testcontainers.core.docker_client import DockerClient
from testcontainers.core.exceptions import ContainerStartException

from dev.broker import Broker
from dev.kafka import single_node_settings
from dev.kafka_jars import KAFKA_VERSION
from dev.machine import ServiceError
from dev.server import free_ports
from tests.support.waiting import wait_until

IMAGE = f"apache/kafka:{KAFKA_VERSION}"
CONTROLLER = "127.0.0.1:9093"  # inside the container


def docker_engine() -> str | None:
    """The version of the Docker engine that answers (``DOCKER_HOST`` counts), None without one."""
    try:
        return str(DockerClient().client.version()["Version"])
    except (DockerException, RequestException):
        return None


@contextmanager
def kafka_container() -> Iterator[Broker]:
    """Run the same single node as ``LocalKafka`` in a container.

    Its port is chosen beforehand and is the same inside and outside: the broker must advertise it before it starts.

    Raises:
        ServiceError: the image cannot be had or Kafka does not start.
    """
    port = free_ports(1)[0]
    container = DockerContainer(IMAGE).with_bind_ports(port, port)
    address = f"{container.get_docker_client().host()}:{port}"
    listeners = f"PLAINTEXT://0.0.0.0:{port},CONTROLLER://{CONTROLLER}"
    for name, value in single_node_settings(listeners, f"PLAINTEXT://{address}", CONTROLLER).items():
        container.with_env(f"KAFKA_{name.upper().replace('.', '_')}", value)
    container.with_env("KAFKA_HEAP_OPTS", "-Xmx512m")
    broker = Broker(address)
    try:
        _start(container)
        _wait_until_ready(broker, container)
        yield broker
    finally:
        container.stop()  # also one that was created and did not start


def _start(container: DockerContainer) -> None:
    try:
        container.start()
    except (DockerException, RequestException, ContainerStartException) as error:
        raise ServiceError(
            f"the Docker engine cannot run {IMAGE}: {error}. "
            "With DOCKER_HOST=unix:///nowhere the tests use a native Kafka instead"
        ) from error


def _wait_until_ready(broker: Broker, container: DockerContainer) -> None:
    def log() -> str:
        return b"".join(container.get_logs()).decode(errors="replace")[-2000:]

    def answers() -> bool:
        container.reload()
        if container.status == "exited":
            raise ServiceError(f"Kafka in a container ended at its start:\n{log()}")
        return broker.cluster_id() is not None

    wait_until(answers, "an answer of Kafka in a container", details=log)
