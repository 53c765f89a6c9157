"""A standalone Spark cluster on this machine: a master and two workers of one core, with the jars for S3."""

import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from app.spark.find_java import java_environment
from app.spark.java_process import MODULE_OPTIONS, class_path
from dev.child import Child
from dev.machine import ServiceError
from dev.maven_jars import Jars, maven_jars
from dev.server import free_ports, tail

_AWS_SDK = "2.35.4"
S3_JARS = Jars(
    name=f"hadoop-aws-3.5.0-{_AWS_SDK}",
    alone=(
        "org.apache.hadoop:hadoop-aws:3.5.0",
        "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1",
    ),
    with_all_they_need=tuple(
        f"software.amazon.awssdk:{name}:{_AWS_SDK}"
        for name in ("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client")
    ),
    megabytes=16,
)
_UP_SECONDS = 120.0
_WORKERS = 2


@dataclass(frozen=True, slots=True)
class SparkCluster:
    """A running one.

    Attributes:
        master: its address, ``spark://…``.
        driver: variables of a driver beside those of its own settings.
        workers: the processes.
    """

    master: str
    driver: Mapping[str, str]
    workers: tuple[Child, Child]


@contextmanager
def spark_cluster(folder: Path) -> Iterator[SparkCluster]:
    """Start it, as long as the block lasts.

    Raises:
        ServiceError: it does not start.
    """
    java, port = _complete_java(), free_ports(1)[0]
    environment = {
        **java_environment(),
        "JAVA_HOME": str(java.parent.parent),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_SCALA_VERSION": "2.13",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }

    def start(name: str, *arguments: str) -> Child:
        command: list[str] = [
            str(java),
            *MODULE_OPTIONS,
            "-Xmx256m",
            "-cp",
            class_path(),
            f"org.apache.spark.deploy.{name}",
            *arguments,
        ]
        number = len(list(folder.glob("*.log")))
        return ends.enter_context(
            Child(name, command, folder=folder, environment=environment, log=folder / f"{number}.log")
        )

    with ExitStack() as ends:
        address = f"spark://127.0.0.1:{port}"
        master = start("master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        one, two = (
            start(
                "worker.Worker",
                "--cores",
                "1",
                "--memory",
                "1g",
                "--webui-port",
                "0",
                "--work-dir",
                str(folder),
                address,
            )
            for _ in range(_WORKERS)
        )
        _wait_for_workers(master, folder / "0.log")
        jars = ",".join(map(str, sorted(maven_jars(S3_JARS).glob("*.jar"))))
        options = f"--jars {jars} --executor-memory 512m --conf spark.driver.host=127.0.0.1 pyspark-shell"
        driver = {name: environment[name] for name in ("JAVA_HOME", "SPARK_LOCAL_IP")}
        yield SparkCluster(address, {**driver, "PYSPARK_SUBMIT_ARGS": options, "HOME": os.environ["HOME"]}, (one, two))


def _wait_for_workers(master: Child, log: Path) -> None:
    deadline = time.monotonic() + _UP_SECONDS
    while log.read_text().count("Registering worker") < _WORKERS:
        master.check_running()
        if time.monotonic() > deadline:
            raise ServiceError(f"the workers of Spark did not come up in {_UP_SECONDS:.0f} s:\n{tail(log)}")
        time.sleep(0.2)


def _complete_java() -> Path:
    """A Java with the module for machine learning that Spark names; the connector's own lacks it."""
    for java in sorted(Path("/usr/lib/jvm").glob("*/bin/java")):
        modules = subprocess.run([java, "--list-modules"], capture_output=True, text=True, check=False).stdout
        if "jdk.incubator.vector" in modules:
            return java.resolve()
    raise ServiceError("a Spark cluster needs a complete Java: apt-get install default-jre-headless")
