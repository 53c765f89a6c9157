"""Kafka's own jars, with nothing but Java."""

from pathlib import Path

from dev.maven_jars import Jars, maven_jars

KAFKA_VERSION = "4.1.0"
SCALA_VERSION = "2.13"
# Kafka logs through SLF4J 1 and leaves the choice of a back end to its distribution; without one it logs nothing.
LOGGING_VERSION = "2.24.3"


def kafka_jars() -> Path:
    """Return the folder with Kafka's jars and all they need; the first call downloads them.

    Raises:
        ServiceError: no Java, or the download failed.
    """
    return maven_jars(
        Jars(
            name=f"kafka-{KAFKA_VERSION}",
            with_all_they_need=(
                f"org.apache.kafka:kafka_{SCALA_VERSION}:{KAFKA_VERSION}",
                f"org.apache.logging.log4j:log4j-slf4j-impl:{LOGGING_VERSION}",
            ),
            megabytes=43,
        )
    )
