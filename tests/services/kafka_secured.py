"""A Kafka broker with logins and permissions: users with SCRAM, and ACLs. Tests themselves may do all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from services.kafka import ANSWER_SECONDS, Kafka

__all__ = ["SecuredKafka"]

PASSWORD = "right"
_ITERATIONS = 4096
_SECURED = """\
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,BEHIND:SASL_PLAINTEXT
sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.behind.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
"""


class SecuredKafka(Kafka):
    """One broker; `secured_address` asks for a user, `address` does not and allows all.

    Args:
        folder: Where data, settings and output go.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)

    @property
    def secured_address(self) -> str:
        """What `bootstrap_servers` takes for users."""
        return f"127.0.0.1:{self.inner_port}"

    def settings(self) -> str:
        """Return the broker's settings."""
        lines = [line for line in super().settings().splitlines() if not line.startswith("listener.security.protocol")]
        return "\n".join(lines) + "\n" + _SECURED

    def add_user(self, name: str) -> None:
        """Create a user without any permission, with `PASSWORD`."""
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, _ITERATIONS)
        change = UserScramCredentialUpsertion(name, credential, PASSWORD.encode())
        self.admin.alter_user_scram_credentials([change])[name].result(ANSWER_SECONDS)

    def allow(self, user: str, kind: str, name: str, *operations: str) -> None:
        """Allow operations (`write`) on what begins with a name, of a kind (`topic`, `group`, `transactional_id`)."""
        self._change(user, kind, name, operations, AclPermissionType.ALLOW)

    def revoke(self, user: str) -> None:
        """Take all permissions of a user away."""
        chosen = AclBindingFilter(
            ResourceType.ANY,
            None,
            ResourcePatternType.ANY,
            f"User:{user}",
            None,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        for answer in self.admin.delete_acls([chosen]).values():
            answer.result(ANSWER_SECONDS)

    def _change(self, user: str, kind: str, name: str, operations: Any, permission: AclPermissionType) -> None:
        pattern = ResourceType[kind.upper()], name, ResourcePatternType.PREFIXED, f"User:{user}", "*"
        rules = [AclBinding(*pattern, AclOperation[operation.upper()], permission) for operation in operations]
        for answer in self.admin.create_acls(rules).values():
            answer.result(ANSWER_SECONDS)
