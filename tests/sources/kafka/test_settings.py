"""The kafka source's part of the YAML."""

from typing import Any

import pytest

from calve.errors import SettingsError
from calve.event.envelope.placeholder import check_unavailable_value
from calve.serde.settings import SchemaSettings, Serde
from calve.sources.kafka.access import ClientCertificate, Encryption, KafkaAuthentication, Login, Sasl, ScramLogin
from calve.sources.kafka.settings import KafkaSettings, TopicSettings


def settings(**more: Any) -> KafkaSettings:
    return KafkaSettings(**{"bootstrap_servers": ["a:1", "b:2"], "topics": [TopicSettings(name="t")]} | more)


def test_a_plain_cluster_needs_no_more_than_its_address():
    assert settings().client() == {"bootstrap.servers": "a:1,b:2"}
    assert list(settings().check()) == []


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"encryption": Encryption()}, {"security.protocol": "SSL"}),
        ({"encryption": Encryption(type="none")}, {}),
        (
            {"encryption": Encryption(certificate="ca.pem", insecure=True)},
            {
                "security.protocol": "SSL",
                "ssl.ca.location": "ca.pem",
                "enable.ssl.certificate.verification": False,
            },
        ),
        (
            {"authentication": KafkaAuthentication(sasl=Sasl(plaintext=Login(username="u", password="p")))},
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "u",
                "sasl.password": "p",
            },
        ),
        (
            {
                "encryption": Encryption(certificate="-----BEGIN CERTIFICATE-----"),
                "authentication": KafkaAuthentication(sasl=Sasl(scram=ScramLogin(username="u", password="p"))),
            },
            {
                "security.protocol": "SASL_SSL",
                "ssl.ca.pem": "-----BEGIN CERTIFICATE-----",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "u",
                "sasl.password": "p",
            },
        ),
        (
            {"authentication": KafkaAuthentication(ssl=ClientCertificate(certificate="c.pem", key="k.pem"))},
            {"security.protocol": "SSL", "ssl.certificate.location": "c.pem", "ssl.key.location": "k.pem"},
        ),
        ({"client_properties": {"client.id": "x"}}, {"client.id": "x"}),
    ],
)
def test_security_settings_become_properties_of_the_client(given: dict[str, Any], expected: dict[str, Any]):
    assert settings(**given).client() == {"bootstrap.servers": "a:1,b:2", **expected}


def test_a_password_is_never_shown():
    sasl = Sasl(plaintext=Login(username="u", password="hidden"))
    assert "hidden" not in repr(settings(authentication=KafkaAuthentication(sasl=sasl)))


def test_what_cannot_work_is_told_with_its_place():
    topics = [TopicSettings(name="t"), TopicSettings(name="t")]
    told = dict(settings(topics=topics, client_properties={"enable.auto.commit": "true"}).check())
    assert "listed twice" in told["topics[1].name"]
    assert told["client_properties"].startswith("enable.auto.commit is set by Calve")
    assert list(Sasl().check())


def test_values_with_a_schema_need_one_and_are_not_mixed_with_others():
    avro, text = TopicSettings(name="a", serde_format="avro"), TopicSettings(name="t")
    schema = SchemaSettings(registry_url="http://r:8081", version="3")
    assert "needs a schema" in dict(settings(topics=[avro]).check())["schema"]
    assert "has no schema" in dict(settings(topics=[text], schema=schema).check())["schema"]
    told = dict(settings(topics=[avro, text], schema=schema).check())
    assert sorted(told) == ["schema.version", "topics[1].serde_format"]
    of_key = TopicSettings(name="a", serde_format="avro", key_mode="include_as_field")
    assert list(dict(settings(topics=[of_key], schema=schema).check())) == ["topics[0].key_mode"]
    assert settings(topics=[avro], schema=schema).serde == Serde("avro", schema, ("a-value",))
    changes = [TopicSettings(name="a", serde_format=name) for name in ("debezium", "maxwell")]
    assert settings(topics=changes[:1], schema=schema).serde == Serde("debezium", schema, ("a-value",))
    assert not dict(settings(topics=changes[:1], schema=schema).check())
    assert "debezium" in dict(settings(topics=changes[1:], schema=schema).check())["schema"]


def test_changes_are_not_mixed_with_events_and_have_no_field_for_the_key():
    topics = [
        TopicSettings(name="a", serde_format="debezium", key_mode="include_as_field"),
        TopicSettings(name="b"),
        TopicSettings(name="c", serde_format="maxwell"),
        TopicSettings(name="d", serde_format="debezium"),
    ]
    told = dict(settings(topics=topics).check())
    assert sorted(told) == ["topics[0].key_mode", "topics[1].serde_format", "topics[2].serde_format"]
    assert list(settings(topics=topics[3:]).check()) == []


def test_a_placeholder_is_debeziums_alone_and_may_be_hexadecimal():
    debezium = [TopicSettings(name="t", serde_format="debezium")]
    assert list(settings(topics=debezium, unavailable_value="hex:01ff").check()) == []
    assert dict(settings(unavailable_value="x").check()) == {
        "unavailable_value": "is for topics with serde_format: debezium"
    }
    for text in ("hex:0", "hex:zz", "hex:6100", "a\0"):
        with pytest.raises(SettingsError):
            check_unavailable_value(text)
    check_unavailable_value("hex:6162")
