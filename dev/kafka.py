"""A private single-node Kafka, broker and KRaft controller in one Java process."""

import base64
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from typing import ClassVar

from dev.broker import Broker
from dev.java import find_java
from dev.kafka_jars import kafka_jars
from dev.machine import ServiceError
from dev.server import NativeServer, free_ports


def single_node_settings(listeners: str, advertised: str, controller: str) -> dict[str, str]:
    """The broker's properties for one node that is its own controller.

    Args:
        listeners: ``PLAINTEXT://host:port,CONTROLLER://host:port``.
        advertised: what clients are told to connect to, ``PLAINTEXT://host:port``.
        controller: ``host:port`` of the controller's listener.
    """
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{controller}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "listeners": listeners,
        "advertised.listeners": advertised,
        # a sink that is pointed at a topic that is not there must be told so
        "auto.create.topics.enable": "false",
        # there is no second node to replicate to
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        # few partitions of the internal topic, and no wait for more members: a group is ready sooner
        "offsets.topic.num.partitions": "4",
        "group.initial.rebalance.delay.ms": "0",
        # the log cleaner takes 128 MB of heap by default, for two internal topics of a few kilobytes
        "log.cleaner.dedupe.buffer.size": str(4 * 1024 * 1024),
    }


class LocalKafka(NativeServer, Broker):
    """Kafka on a free port of 127.0.0.1, with its data in a temporary folder.

    Args:
        heap: the most memory Java may take for its heap, as in ``-Xmx``.
        detour: a port of ours that something else forwards to ``detour_port``: who bootstraps there stays there.
        settings: further properties of the broker.
        listeners: further ones of clients, name → security protocol; ``ports`` has the port of each.
        java_options: further ones of Java.
    """

    name: ClassVar[str] = "kafka"

    def __init__(
        self,
        heap: str = "512m",
        detour: int | None = None,
        settings: Mapping[str, str] | None = None,
        listeners: Mapping[str, str] | None = None,
        java_options: Sequence[str] = (),
    ) -> None:
        NativeServer.__init__(self)
        self._listeners = listeners or {}
        self._port, self._controller_port, self.detour_port, *ports = free_ports(3 + len(self._listeners))
        self.ports = dict(zip(self._listeners, ports, strict=True))
        self._detour = detour
        Broker.__init__(self, f"127.0.0.1:{self._port}")
        self._heap = heap
        self._settings = settings or {}
        self._java_options = java_options
        self._cluster = _new_cluster_id()
        self._data = self.folder / "data"
        self._properties = self.folder / "server.properties"

    def _command(self) -> Sequence[str]:
        if not self._data.exists():
            self._format()
        options = (f"-Xmx{self._heap}", "-XX:+ExitOnOutOfMemoryError", *self._java_options)
        return [*self._java(*options), "kafka.Kafka", str(self._properties)]

    def _environment(self) -> Mapping[str, str]:
        return {}

    def _is_ready(self) -> bool:
        return self.cluster_id() == self._cluster

    def _format(self) -> None:
        """Write settings and an empty log for our cluster id, as a new node needs it."""
        controller = f"127.0.0.1:{self._controller_port}"
        client = f"PLAINTEXT://{self.bootstrap_servers}"
        settings = single_node_settings(f"{client},CONTROLLER://{controller}", client, controller)
        if self._detour:
            settings["listeners"] += f",DETOUR://127.0.0.1:{self.detour_port}"
            settings["advertised.listeners"] += f",DETOUR://127.0.0.1:{self._detour}"
            settings["listener.security.protocol.map"] += ",DETOUR:PLAINTEXT"
            settings["inter.broker.listener.name"] = "PLAINTEXT"
        for name, protocol in self._listeners.items():
            address = f",{name}://127.0.0.1:{self.ports[name]}"
            settings["listeners"] += address
            settings["advertised.listeners"] += address
            settings["listener.security.protocol.map"] += f",{name}:{protocol}"
            settings["inter.broker.listener.name"] = "PLAINTEXT"
        settings |= {"log.dirs": str(self._data), **self._settings}
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        told = subprocess.run(
            [
                *self._java("-Xmx128m", "-XX:TieredStopAtLevel=1", *self._java_options),
                *("kafka.tools.StorageTool", "format", "-t", self._cluster, "-c", str(self._properties)),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if told.returncode != 0:
            raise ServiceError(f"formatting Kafka's log folder {self._data} failed:\n{told.stdout}{told.stderr}")

    def _java(self, *options: str) -> list[str]:
        # without a level Log4j's own default would keep all but errors out of the log
        return [find_java(), *options, "-Dlog4j2.level=INFO", "-cp", f"{kafka_jars()}/*"]


def _new_cluster_id() -> str:
    """A random UUID as Kafka spells it: 22 characters of URL-safe base64, and a leading dash would be an option."""
    while (cluster := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return cluster
