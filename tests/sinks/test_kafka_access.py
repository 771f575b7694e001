"""What a broker with logins and permissions refuses, and what is said: the true cause, and what to allow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from calve.dead_letters.settings import KafkaDeadLetters
from calve.errors import CalveError, SourceUnavailableError
from calve.sinks.kafka import brokers, letters, sink, transaction
from calve.sinks.kafka.settings import KafkaSinkSettings, TargetTopic
from calve.sinks.records.record import OutgoingRecord
from calve.sources.kafka.access import KafkaAuthentication, Sasl, ScramLogin
from calve.sources.kafka.cluster import Cluster
from calve.sources.kafka.settings import KafkaSettings, TopicSettings
from services.kafka_secured import PASSWORD, SecuredKafka

pytestmark = pytest.mark.services("kafka")

TOPIC = ("topic", "t", "describe", "write", "read")
GROUP = ("group", "calve-", "read", "describe")
ID = ("transactional_id", "calve-", "write", "describe")
ON_TOPIC = "DESCRIBE, WRITE and READ on the topic"
CASES: dict[str, tuple[list[tuple[str, ...]], dict[str, Any], str, str]] = {
    "a wrong password": ([TOPIC, GROUP, ID], {"password": "wrong"}, "refuses the login", "Correct `authentication`"),
    "another mechanism": (
        [TOPIC, GROUP, ID],
        {"mechanism": "SCRAM-SHA-256"},
        "supported mechanisms: SCRAM-SHA-512",
        "Correct `authentication`",
    ),
    "nothing allowed": ([], {}, "Kafka refuses the topic t", ON_TOPIC),
    "no WRITE": ([("topic", "t", "describe", "read"), GROUP, ID], {}, "Kafka refuses the topic t", ON_TOPIC),
    "no READ": ([("topic", "t", "write"), GROUP, ID], {}, "Kafka refuses the topic t", ON_TOPIC),
    "no group": ([TOPIC, ID], {}, "refuses the offsets of the group calve-", "READ and DESCRIBE on groups"),
    "no transactional id": (
        [TOPIC, GROUP],
        {},
        "Transactional Id authorization failed",
        "WRITE and DESCRIBE on transactional",
    ),
    "the topic is missing": ([TOPIC, GROUP, ID], {"name": "tx"}, "Unknown topic", "Create it, or set `create_topic"),
    "no CREATE": ([TOPIC, GROUP, ID], {"name": "tx", "create_topic": True}, "Cluster authorization", "CREATE on it"),
}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with SecuredKafka(tmp_path_factory.mktemp("secured")) as broker:
        broker.create_topic("t")
        yield broker


def login(user: str, password: str = PASSWORD, mechanism: Any = "SCRAM-SHA-512") -> KafkaAuthentication:
    return KafkaAuthentication(sasl=Sasl(scram=ScramLogin(username=user, password=password, mechanism=mechanism)))


def send(settings: KafkaSinkSettings, name: str) -> None:
    """Check the topic, and send a record, as the driver and a task do."""
    sink.check(settings, creates=True)
    transaction._open.clear()
    topic = settings.target.name
    transaction.send(settings, name, 1, {topic}, lambda: [OutgoingRecord(topic, None, b"v", [], 0, 0)])
    transaction._open.clear()


def test_each_refusal_names_its_cause_and_what_to_allow(secured: SecuredKafka) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(brokers, "_MISSING_SECONDS", 0.0)
        for number, (what, (rules, options, cause, hint)) in enumerate(CASES.items()):
            user, options = f"user{number}", dict(options)
            secured.add_user(user)
            for rule in rules:
                secured.allow(user, *rule)
            as_user = {name: options.pop(name) for name in ("password", "mechanism") if name in options}
            settings = KafkaSinkSettings(
                bootstrap_servers=secured.secured_address,
                topic=TargetTopic(**{"name": "t"} | options),
                authentication=login(user, **as_user),
            )
            patch.setattr(brokers, "ANSWER_SECONDS", 3.0 if as_user else 15.0)
            with pytest.raises(CalveError) as refused:
                send(settings, f"calve-{user}")
            assert cause in str(refused.value), what
            assert hint in refused.value.hint, what
            assert type(refused.value).__name__ == "SinkRefusedError", what


def test_with_all_permissions_it_is_sent_until_they_are_taken_away(secured: SecuredKafka) -> None:
    secured.add_user("allowed")
    for rule in (TOPIC, GROUP, ID):
        secured.allow("allowed", *rule)
    settings = KafkaSinkSettings(bootstrap_servers=secured.secured_address, topic="t", authentication=login("allowed"))
    send(settings, "calve-allowed")
    assert [record.value() for record in secured.committed("t")] == [b"v"]
    dead = KafkaDeadLetters(topic="t", bootstrap_servers=secured.secured_address, authentication=login("allowed"))
    letters.probe(dead)
    secured.revoke("allowed")
    with pytest.raises(CalveError, match="Kafka refuses the topic t"):
        letters.probe(dead)


def test_a_source_says_that_its_login_is_refused_and_waits(secured: SecuredKafka) -> None:
    settings = KafkaSettings(
        bootstrap_servers=secured.secured_address, topics=[TopicSettings(name="t")], authentication=login("nobody")
    )
    with pytest.raises(SourceUnavailableError, match="refuses the login") as refused:
        Cluster(settings).topics()
    assert "Correct `authentication`" in refused.value.hint
