"""The `kafka` source of a converted connector: topics, converters, consumer and security."""

from __future__ import annotations

import re
from typing import Any

from calve.errors import SettingsError
from calve.migrate.properties import Properties, listed, shown

__all__ = ["kafka_source", "topic_entries"]

_REGISTRY = {"AvroConverter": "avro", "ProtobufConverter": "protobuf", "JsonSchemaConverter": "json_schema"}
_PLAIN = {"JsonConverter": "json", "StringConverter": "plaintext", "ByteArrayConverter": "bytes"}
_STORES = (
    "Calve reads PEM files: `encryption.certificate` for the brokers' CA, `authentication.ssl` for a client certificate"
)


def topic_entries(properties: Properties) -> list[dict[str, str]]:
    """Return the topics, by name or pattern.

    Raises:
        SettingsError: There are none.
    """
    if pattern := properties.pop("topics.regex"):
        return [{"pattern": pattern}]
    topics = listed(properties.pop("topics"))
    if not topics:
        hint = "Add the property `topics` or `topics.regex`"
        raise SettingsError("The connector has no topics", step="settings", hint=hint)
    return [{"name": topic} for topic in topics]


def kafka_source(properties: Properties, connector: str, topics: list[dict[str, str]], serde: str) -> dict[str, Any]:
    """Return the settings of the source.

    Args:
        properties: The connector's.
        connector: Its name.
        topics: The topics to read.
        serde: The format of the records, if the transforms say so; else the converter does.
    """
    consumer = properties.below("consumer.override.")
    clients = properties.below("iceberg.kafka.")
    security = {**clients, **consumer}
    source: dict[str, Any] = {
        "bootstrap_servers": listed(security.pop("bootstrap.servers", "")) or [_servers(properties)]
    }
    group = security.pop("group.id", "") or properties.pop("iceberg.connect.group-id") or f"connect-{connector}"
    records, schema = _format(properties, serde)
    topic: dict[str, Any] = {"group_id": group, **records}
    if (reset := security.pop("auto.offset.reset", "")) in ("earliest", "latest"):
        topic["auto_offset_reset"] = reset
    security.pop("isolation.level", None)
    source["topics"] = [{**entry, **topic} for entry in topics]
    source |= schema | _security(properties, security)
    if security:
        properties.remarks += [
            (f"consumer: {name}", "Tuning of Java's consumer; Calve reads with librdkafka") for name in security
        ]
    return source


def _servers(properties: Properties) -> str:
    properties.advise("The brokers are in the worker's configuration: set KAFKA_BOOTSTRAP_SERVERS or write them below")
    return "${env:KAFKA_BOOTSTRAP_SERVERS:-localhost:9092}"


def _format(properties: Properties, serde: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the format of records, by the transforms or the converter, and the settings of its schemas."""
    converter = properties.pop("value.converter").rpartition(".")[2]
    options = properties.below("value.converter.")
    has_schemas = converter in _REGISTRY and (not serde or (serde, converter) == ("debezium", "AvroConverter"))
    has_avro_keys = has_schemas and properties.values.get("key.converter", "").endswith(".AvroConverter")
    if has_avro_keys:
        properties.pop("key.converter")
        for name in [name for name in options if properties.values.get(f"key.converter.{name}") == options[name]]:
            properties.pop(f"key.converter.{name}")  # the same registry
    properties.remark_below("Calve keeps the key of a record as the metadata `kafka_key`", "key.converter")
    if has_schemas:
        keys = {"key_format": "avro"} if has_avro_keys and not serde else {}
        return {"serde_format": serde or _REGISTRY[converter]}, {"schema": _registry(properties, options) | keys}
    if not converter and not serde:
        properties.advise("The converter is in the worker's configuration: JSON is assumed; see `serde_format`")
    if converter == "JsonConverter" and options.get("schemas.enable", "true") != "false":
        serde = serde or "connect_json"
    if converter not in ("", "JsonConverter") and (serde not in ("", "json") or converter not in _PLAIN):
        advice = "Calve reads change streams as JSON" if serde else "Calve has no such format; JSON is assumed"
        properties.remarks.append((f"value.converter = {converter}", advice))
    return {"serde_format": serde or _PLAIN.get(converter, "json")}, {}


def _registry(properties: Properties, options: dict[str, str]) -> dict[str, str]:
    """Return where the schemas are, and how to log in there."""
    schema = {"type": "confluent", "registry_url": (listed(options.pop("schema.registry.url", "")) or [""])[0]}
    if not schema["registry_url"]:
        schema["registry_url"] = "${env:SCHEMA_REGISTRY_URL:-http://localhost:8081}"
        properties.advise("The schema registry is in the worker's configuration: set SCHEMA_REGISTRY_URL")
    options.pop("basic.auth.credentials.source", "")
    user, _, password = options.pop("basic.auth.user.info", "").partition(":")
    if password:
        schema |= {"schema_registry_api_key": user, "schema_registry_api_secret": password}
    if token := options.pop("bearer.auth.token", ""):
        schema["bearer_token"] = token
    rest = [f"value.converter.{name} = {shown(name, value)}" for name, value in options.items()]
    properties.remarks += [(option, "See the keys of `schema` in docs/reference.md") for option in rest]
    return schema


def _security(properties: Properties, given: dict[str, str]) -> dict[str, Any]:
    """Take what protects connections from the properties of Java's client."""
    protocol = given.pop("security.protocol", "PLAINTEXT").upper()
    mechanism = given.pop("sasl.mechanism", "PLAIN").upper()
    jaas = given.pop("sasl.jaas.config", "")
    for name in [name for name in given if name.startswith("ssl.")]:
        properties.remarks.append((f"consumer: {name}", _STORES))
        del given[name]
    source: dict[str, Any] = {"encryption": {"type": "ssl"}} if "SSL" in protocol else {}
    if not protocol.startswith("SASL"):
        return source
    login = {key: _quoted(jaas, key) for key in ("username", "password")}
    if mechanism == "PLAIN" and all(login.values()):
        source["authentication"] = {"sasl": {"plaintext": login}}
    elif mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512") and all(login.values()):
        source["authentication"] = {"sasl": {"scram": {**login, "mechanism": mechanism}}}
    else:
        advice = "Set librdkafka's sasl.* properties as `client_properties` of the source"
        properties.remarks.append((f"sasl.mechanism = {mechanism}, sasl.jaas.config = …", advice))
    return source


def _quoted(jaas: str, key: str) -> str:
    match = re.search(rf"\b{key}\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s;]+))", jaas)
    return next(filter(None, match.groups()), "") if match else ""
