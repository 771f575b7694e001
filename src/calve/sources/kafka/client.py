"""Shared by all clients of Kafka: quiet, quick reconnects, and failures as Calve's errors."""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaError, KafkaException

from calve.errors import PositionLostError, SourceError, SourceUnavailableError

__all__ = ["GONE", "LOGIN_HINT", "ClientTrouble", "lost", "translate"]

QUIET = {"log_level": 0, "reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 1000}
GONE = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
}
"""A broker's codes for an unknown topic or partition; one that just started may return them for any."""
_LOGIN = {KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED}
REFUSED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
}
LOGIN_HINT = "Correct `authentication` (user, password, mechanism) and `encryption`"
LOST_HINT = "To continue at the oldest remaining record, set `on_lost_position: earliest` on the source"


class ClientTrouble:
    """The last error that a client logged; its answers (a time-out) do not contain it.

    Args:
        settings: librdkafka's properties; `client` has them with this object's callback.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self.servers = str(settings["bootstrap.servers"])
        self.client = QUIET | settings | {"error_cb": self.note}
        self._last: KafkaError | None = None

    @property
    def refused_login(self) -> str:
        """The sentence that the brokers refuse the login, if that was the last complaint; else empty."""
        if self._last is None or self._last.code() not in _LOGIN:
            return ""
        return f"Kafka at {self.servers} refuses the login: {self._last.str()}"

    def unavailable(self, waiting_for: str) -> SourceError:
        """Return the error of a missing answer; for an unknown topic or partition it never comes."""
        if self._last and self._last.code() in GONE:
            return lost(waiting_for, "the topic or the partition does not exist")
        if reason := self.refused_login:
            hint = f"{LOGIN_HINT}; Calve continues by itself when the login works"
            return SourceUnavailableError(reason, step="read", target=self.servers, hint=hint)
        reason = f": {self._last.str()}" if self._last else ""
        return SourceUnavailableError(
            f"Kafka at {self.servers} does not answer ({waiting_for}){reason}",
            step="read",
            target=self.servers,
            hint="Start the broker or correct `bootstrap_servers`; Calve continues by itself when it answers",
        )

    def note(self, error: KafkaError) -> None:
        """Remember a complaint."""
        if error.code() != KafkaError._ALL_BROKERS_DOWN or not self._last:
            self._last = error


def translate(error: KafkaException | KafkaError, what: str, trouble: ClientTrouble) -> SourceError:
    """Convert librdkafka's error to Calve's."""
    cause = error if isinstance(error, KafkaError) else error.args[0]
    code = cause.code() if isinstance(cause, KafkaError) else None
    if code in REFUSED:
        hint = "Allow Calve's user to describe and read it"
        return SourceError(f"Kafka refuses {what}: {cause.str()}", step="read", target=trouble.servers, hint=hint)
    if code in GONE:
        return lost(what, "it no longer exists")
    if code == KafkaError._AUTO_OFFSET_RESET:
        return lost(what, "its records are gone")
    failed = trouble.unavailable(what)
    if code not in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
        failed = SourceUnavailableError(f"Kafka at {trouble.servers} fails {what}: {cause}", **_where(failed))
    return failed


def lost(what: str, why: str, hint: str = LOST_HINT) -> PositionLostError:
    """Return the error of records that were deleted before they were read."""
    return PositionLostError(f"Kafka cannot give {what}: {why}", step="read", target=what, hint=hint)


def _where(error: SourceError) -> dict[str, str]:
    return {"step": error.step, "target": error.target, "hint": error.hint}
