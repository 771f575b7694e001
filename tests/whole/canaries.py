"""Pipelines with a canary in every place where a secret can stand."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any
from urllib.parse import quote

__all__ = ["ENDING", "MARK", "Canaries", "pipelines"]

MARK = "canary"
ENDING = "@/)'\"%&;=+ü \\z"
"""What an address, a quoted text, a shell or a log may encode, escape or cut."""
Pipelines = dict[str, Any]
LINES = {"file": {"path": "in/*.ndjson"}}


class Canaries:
    """Makes secrets, each another one.

    Attributes:
        environment: Variables with some of them.
        files: Files with some of them.
    """

    def __init__(self, folder: Path) -> None:
        self._numbers = itertools.count(100)
        self._folder = folder
        self.environment: dict[str, str] = {}

    def new(self) -> str:
        return f"{self.plain()}{ENDING}"

    def plain(self) -> str:
        return f"{MARK}{next(self._numbers)}x"

    def encoded(self) -> str:
        return quote(self.new(), safe="")

    def of_environment(self) -> str:
        name = f"SECRET_{next(self._numbers)}"
        self.environment[name] = self.new()
        return f"${{env:{name}}}"

    def of_file(self) -> str:
        path = self._folder / f"secret-{next(self._numbers)}"
        path.write_text(self.new())
        return f"${{file:{path}}}"


def pipelines(c: Canaries, port: int, nobody: int) -> Pipelines:
    """Return one pipeline for each source and sink with secrets; nobody answers at the port `nobody`."""
    at = f"127.0.0.1:{nobody}"
    return {
        "works": _works(c, port),
        "telemetry": _into(otlp={"port": 0, "grpc_port": None, "authentication": {"bearer": {"token": c.new()}}}),
        **_of_kafka(c, at),
        **_of_databases(c, nobody),
        **_of_spark(c, nobody),
        **_of_stores(c, at),
        **_of_catalogs(c, at),
        **_of_searches(c, at),
        **_of_hooks(c, at),
    }


def _works(c: Canaries, port: int) -> Pipelines:
    basic = {"http_basic": {"username": "u", "password": c.new()}}
    required = {"columns": [{"name": "id", "type": "long", "required": True}]}
    return {
        "source": {"http": {"port": port, "authentication": basic}},
        "sink": [_iceberg(dlq="letters", schema=required)],
    }


def _of_kafka(c: Canaries, at: str) -> Pipelines:
    registry = {"registry_url": f"http://{at}"}
    secret = {"schema_registry_api_key": "k", "schema_registry_api_secret": c.new()}
    plain = {"sasl": {"plaintext": {"username": "u", "password": c.of_environment()}}}
    scram = {"sasl": {"scram": {"username": "u", "password": c.of_file()}}}
    jaas = {"sasl.password": c.new(), "sasl.username": "u", "sasl.mechanism": "PLAIN", "ssl.key.password": c.new()}
    certificate = {"ssl": {"certificate": "none.pem", "key": "none.key", "key_password": c.new()}}
    avro = {"serde_format": "avro"}
    sources: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
        "plain": ({}, {"authentication": plain}),
        "scram": (avro, {"schema": registry | secret, "authentication": scram}),
        "bearer": (avro, {"schema": registry | {"bearer_token": c.new()}, "client_properties": jaas}),
        "certificate": ({}, {"authentication": certificate}),
    }
    return {
        name: _into(
            kafka={"bootstrap_servers": [at], "topics": [{"name": "t", "group_id": f"g-{name}", **topic}], **more}
        )
        for name, (topic, more) in sources.items()
    }


def _of_databases(c: Canaries, nobody: int) -> Pipelines:
    address = {"host": "127.0.0.1", "port": nobody}
    rds = {"engine": "postgresql", "database": "d", "authentication": {"username": "u", "password": c.new()}}
    return {
        "postgres": _into(postgres={**address, "username": "u", "password": c.new(), "database": "d"}),
        "mysql": _into(mysql={**address, "username": "u", "password": c.of_environment()}),
        "rds": _into(rds=address | rds),
    }


def _of_spark(c: Canaries, nobody: int) -> Pipelines:
    address = f"jdbc:postgresql://user:{c.encoded()}@127.0.0.1:{nobody}/d?password={c.encoded()}"
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{c.plain()}";'
    return {
        "spark-load": _into(
            spark={"format": "jdbc", "read": "batch", "options": {"url": address, "dbtable": "t", "password": c.new()}}
        ),
        "spark-stream": _into(
            spark={"format": "kafka", "options": {"subscribe": "t", "kafka.sasl.jaas.config": login}}
        ),
    }


def _of_stores(c: Canaries, at: str) -> Pipelines:
    def keys() -> dict[str, str]:
        return {"endpoint": f"http://{at}", "access_key_id": c.new(), "secret_access_key": c.new()}

    queue = {"notification_type": "sqs", "sqs": {"queue_url": f"http://user:{c.encoded()}@{at}/000/q"}}
    return {
        "objects": _into(s3={**queue, "codec": {"ndjson": {}}, "aws": {"region": "eu-central-1", **keys()}}),
        "files": _into(file={"path": "s3://bucket/in/*.ndjson", "s3": keys()}),
    }


def _of_catalogs(c: Canaries, at: str) -> Pipelines:
    rest, tables = _rest(c, at), [{"table_name": "a.b"}]
    jdbc = {
        "type": "jdbc",
        "uri": f"jdbc:postgresql://user:{c.encoded()}@{at}/db?user=u&password={c.encoded()}",
        "jdbc.user": "u",
        "jdbc.password": c.new(),
        "warehouse": f"s3://{c.plain()}@bucket/w",
    }
    return {
        "reads": _into(iceberg={"tables": [{"table_name": "a.b", "catalog": rest}]}),
        "reads_all": _into(iceberg={"catalog": rest | {"token": c.new()}, "tables": tables}),
        **{
            name: {"source": LINES, "sink": [_iceberg(catalog=catalog)]}
            for name, catalog in {"rest": rest, "jdbc": jdbc, "stored": _stored(c, at)}.items()
        },
    }


def _rest(c: Canaries, at: str) -> dict[str, str]:
    return {
        "type": "rest",
        "uri": f"http://user:{c.encoded()}@{at}/catalog?token={c.encoded()}",
        "credential": f"id:{c.of_environment()}",
        "token": c.of_file(),
        "header.Authorization": f"Bearer {c.plain()}",
        "s3.secret-access-key": c.new(),
        "warehouse": "w",
    }


def _stored(c: Canaries, at: str) -> dict[str, str]:
    return {
        "type": "jdbc",
        "name": "stored",
        "uri": f"jdbc:sqlite:{Path.cwd()}/stored.db",
        "warehouse": "s3://bucket/w",
        "jdbc.schema-version": "V1",
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "s3.endpoint": f"http://user:{c.encoded()}@{at}",
        "s3.access-key-id": c.new(),
        "s3.secret-access-key": c.new(),
        "s3.session-token": c.new(),
        "client.region": "eu-central-1",
    }


def _of_searches(c: Canaries, at: str) -> Pipelines:
    search = {"hosts": [f"http://{at}"], "index": "i", "document_id": "${/id}"}
    logins: tuple[dict[str, Any], ...] = (
        {"username": "u", "password": c.new()},
        {"authentication": {"username": "u", "password": c.of_file()}},
    )
    return {
        name: {"source": LINES, "sink": [{"opensearch": search | login}]}
        for name, login in zip(("search", "search2"), logins, strict=True)
    }


def _of_hooks(c: Canaries, at: str) -> Pipelines:
    letters = {"topic": "t", "bootstrap_servers": at, "client_properties": {"sasl.password": c.new()}}
    hooks: dict[str, dict[str, Any]] = {
        "hook": {"authentication": {"bearer_token": c.plain()}, "dlq": {"kafka": letters}},
        "hook2": {"authentication": {"http_basic": {"username": "u", "password": c.of_file()}}},
        "hook3": {"headers": {"X-Key": c.plain()}},
    }
    return {
        name: {"source": LINES, "sink": [{"http": {"url": f"http://{at}/hook?token={c.encoded()}", **more}}]}
        for name, more in hooks.items()
    }


def _into(**source: Any) -> Pipelines:
    return {"source": source, "sink": [_iceberg()]}


def _iceberg(**more: Any) -> dict[str, Any]:
    return {"iceberg": {"table_identifier": "a.b", "auto_create": True, "commit_interval": "200ms", **more}}
