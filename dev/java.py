"""The Java that Kafka runs on: the one of the connector."""

from app.errors import ConfigError
from app.spark import find_java as java
from dev.machine import ServiceError


def find_java() -> str:
    """The path of the program.

    Raises:
        ServiceError: there is none that can be used; the message says what to do.
    """
    try:
        return str(java.find_java())
    except ConfigError as error:
        raise ServiceError(str(error)) from None
