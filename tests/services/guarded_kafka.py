"""A Kafka whose users may do what is granted to them, and nothing else; the broker's own address asks for no login."""

from typing import Final

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from dev.broker import ADMIN_TIMEOUT
from dev.kafka import LocalKafka
from tests.services.secured_kafka import PASSWORD

_USERS: Final = tuple(f"user-{number}" for number in range(20))
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_LISTENER = "listener.name.password."

Right = tuple[ResourceType, str, AclOperation]
"""A resource, its name or what its name begins with and ``*``, and what is allowed."""


class GuardedKafka(LocalKafka):
    """Each user gets its rights once."""

    def __init__(self) -> None:
        passwords = " ".join(f'user_{user}="{PASSWORD}"' for user in _USERS)
        super().__init__(
            listeners={"PASSWORD": "SASL_PLAINTEXT"},
            settings={
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS",
                f"{_LISTENER}sasl.enabled.mechanisms": "PLAIN",
                f"{_LISTENER}plain.sasl.jaas.config": f"{_PLAIN} required {passwords};",
            },
        )
        self._free = iter(_USERS)

    def login(self, *rights: Right, user: str = "") -> dict[str, str]:
        """The settings of the connector for a new user who has these rights alone, or of ``user`` with more rights."""
        user = user or next(self._free)
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        bindings = [
            AclBinding(
                kind,
                name.rstrip("*") or "*",
                ResourcePatternType.PREFIXED if name[-1] == "*" and name != "*" else ResourcePatternType.LITERAL,
                f"User:{user}",
                "*",
                operation,
                AclPermissionType.ALLOW,
            )
            for kind, name, operation in rights
        ]
        for done in admin.create_acls(bindings).values() if bindings else ():
            done.result(ADMIN_TIMEOUT)
        return {
            "KAFKA_BOOTSTRAP_SERVERS": f"127.0.0.1:{self.ports['PASSWORD']}",
            "KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
            "KAFKA_SASL_MECHANISM": "PLAIN",
            "KAFKA_SASL_USERNAME": user,
            "KAFKA_SASL_PASSWORD": PASSWORD,
        }
