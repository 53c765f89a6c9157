"""Kafka's own jars, with nothing but Java: fetched by the Apache Ivy that comes with PySpark."""

import importlib.util
import subprocess
import tempfile
from pathlib import Path

from dev.java import find_java
from dev.machine import ServiceError, cache_folder, make_once

KAFKA_VERSION = "4.1.0"
SCALA_VERSION = "2.13"
# Kafka logs through SLF4J 1 and leaves the choice of a back end to its distribution; without one it logs nothing.
LOGGING_VERSION = "2.24.3"

MODULES = f"""\
<ivy-module version="2.0">
  <info organisation="dev" module="kafka"/>
  <configurations><conf name="run"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_{SCALA_VERSION}" rev="{KAFKA_VERSION}"
                conf="run-&gt;master,runtime"/>
    <dependency org="org.apache.logging.log4j" name="log4j-slf4j-impl" rev="{LOGGING_VERSION}"
                conf="run-&gt;master,runtime"/>
  </dependencies>
</ivy-module>
"""


def kafka_jars() -> Path:
    """Return the folder with Kafka's jars and all they need; the first call downloads 43 MB.

    Raises:
        ServiceError: no Java, or the download failed.
    """
    return make_once(
        cache_folder() / f"kafka-{KAFKA_VERSION}",
        _download,
        f"downloading Kafka {KAFKA_VERSION} once, about half a minute",
    )


def _download(target: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="ivy-") as folder:
        modules = Path(folder) / "ivy.xml"
        modules.write_text(MODULES)
        command = [
            find_java(),
            f"-Divy.default.ivy.user.dir={folder}",  # else it reads and writes below the home folder
            *("-jar", str(_ivy_jar())),
            *("-ivy", str(modules), "-confs", "run", "-cache", f"{folder}/cache"),
            *("-retrieve", f"{target}/[artifact]-[revision](-[classifier]).[ext]"),
        ]
        told = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if told.returncode != 0:
        end = "\n".join(f"    {line}" for line in told.stdout.splitlines()[-10:])
        raise ServiceError(
            f"Kafka's jars could not be downloaded. Behind a proxy, name it to Java: "
            f"JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=HOST -Dhttps.proxyPort=PORT'. Ivy said:\n{end}"
        )


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    found = sorted(Path(spec.origin).parent.glob("jars/ivy-*.jar")) if spec and spec.origin else []
    if not found:
        raise ServiceError("no Apache Ivy beside PySpark: run this with the Python of the environment of `make venv`")
    return found[-1]
