"""`calve init` looks into real servers: what it says, what it writes, and that Calve takes it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import obstore
import pytest
from click.testing import CliRunner, Result

from calve.cli.main import calve as command
from calve.pipeline.plugins import PLUGINS
from calve.settings import parse
from services.kafka import Kafka
from services.mysql import PASSWORD as MYSQL_PASSWORD
from services.mysql import MySql
from services.objects import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, ObjectStore
from services.postgres import PASSWORD, Postgres
from services.registry import Registry, framed
from sources.s3.world import World

pytestmark = pytest.mark.services

TABLES = (
    "create table orders (id bigint primary key, city varchar(20), total numeric(9,2), created_at timestamp)",
    "insert into orders values (1, 'Bern', 9.5, '2026-01-31 12:00:00'), (2, null, null, null)",
    "create table audit (note varchar(20))",
)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    monkeypatch.setenv("MYSQL_PWD", MYSQL_PASSWORD)


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        server.run(*TABLES, database=server.create_database("shop"))
        yield server


def init(*arguments: str) -> Result:
    done = CliRunner().invoke(command, ["init", *arguments])
    assert done.exit_code == 0, done.output
    return done


def settings(path: str = "pipeline.yaml") -> tuple[Any, Any]:
    (pipeline,) = parse(path, PLUGINS).pipelines
    return pipeline.source.value, pipeline.sinks[0].value


def test_the_tables_of_postgres_are_shown_with_keys_and_first_rows_and_nothing_is_changed(postgres: Postgres) -> None:
    place = f"postgres://postgres@127.0.0.1:{postgres.port}/shop"
    said = init("--source", "postgres", "--from", place).output
    assert "has 2 tables that are selected" in said
    assert (
        "public.orders: id bigint (key), city character varying(20), total numeric(9,2), created_at timestamp" in said
    )
    assert ["1", "Bern", "9.50", "2026-01-31", "12:00:00"] in [line.split() for line in said.splitlines()]
    assert ["2", "NULL", "NULL", "NULL"] in [line.split() for line in said.splitlines()]
    assert "no key: it is excluded" in said
    source, _ = settings()
    assert (source.selected.include, source.selected.exclude) == (["public.*"], ["public.audit"])
    assert "# public.orders: id bigint (key)" in Path("pipeline.yaml").read_text()
    leftovers = "select (select count(*) from pg_replication_slots) + (select count(*) from pg_publication)"
    assert postgres.run(leftovers, database="shop") == [["0"]]


def test_tables_are_chosen_by_options_without_a_terminal(postgres: Postgres) -> None:
    place = f"postgres://postgres@127.0.0.1:{postgres.port}/shop"
    said = init("--source", "postgres", "--from", place, "--tables", "public.ord*").output
    assert "has 1 table that is selected" in said
    assert settings()[0].selected.include == ["public.ord*"]


def test_what_cannot_be_reached_is_said_and_the_pipeline_is_written(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "wrong-password")
    said = init("--source", "postgres", "--from", f"postgres://postgres@127.0.0.1:{postgres.port}/shop").output
    assert "The source was not looked into: " in said
    assert "wrong-password" not in said
    assert settings()[0].selected.include == ["public.*"]
    Path("pipeline.yaml").unlink()
    assert (
        "not looked into" not in init("--source", "postgres", "--from", "postgres://x.invalid/shop", "--offline").output
    )


def test_the_tables_of_mysql_are_shown() -> None:
    with MySql() as server:
        server.create_database("shop")
        server.run(*TABLES, database="shop")
        place = f"mysql://root@127.0.0.1:{server.port}/shop?allow_cleartext_password=true"
        said = init("--source", "mysql", "--from", place).output
    assert "shop.orders: id bigint(20) (key), city varchar(20), total decimal(9,2), created_at timestamp" in said
    assert settings()[0].selected.exclude == ["shop.audit"]


def topic(broker: Kafka, name: str, values: list[bytes], key: bytes | None = None) -> str:
    broker.create_topic(name)
    broker.produce(name, values, keys=[key] * len(values))
    return f"{broker.address}/{name}"


def test_a_topic_of_json_shows_the_table_that_it_would_make(kafka_broker: Kafka) -> None:
    place = topic(kafka_broker, "init-json", [b'{"id": 1, "at": "2026-01-31T12:00:00Z"}'] * 3, b'{"id": 1}')
    said = init("--source", "kafka", "--from", place, "--table", "shop.orders").output
    assert "The records of init-json are JSON objects, with the key id" in said
    assert "What it would make of the first records" in said
    assert "3 rows for 1 table" in said
    text = Path("pipeline.yaml").read_text()
    assert '# identifier_columns: ["id"]' in text
    assert '# partition_by: ["day(at)"]' in text
    Path("pipeline.yaml").unlink()
    init("--source", "kafka", "--from", place, "--table", "shop.orders", "--key", "id")
    _, sink = settings()
    assert (sink.identifier_columns, sink.upsert, sink.write_mode) == (["id"], True, "merge-on-read")


@pytest.mark.parametrize("has_schema", [True, False])
def test_a_topic_of_debezium_is_a_copy_of_rows_with_their_key(kafka_broker: Kafka, has_schema: bool) -> None:
    change = {"before": None, "after": {"nr": 1}, "op": "c", "source": {"table": "t"}}
    fields = [{"type": "int32", "optional": False, "field": "nr"}]
    row = {"type": "struct", "optional": True, "field": "after", "fields": fields}
    schema = {"type": "struct", "name": "x.Envelope", "fields": [row]}
    value = json.dumps({"schema": schema, "payload": change} if has_schema else change).encode()
    key = json.dumps({"schema": {"type": "struct"}, "payload": {"nr": 1}} if has_schema else {"nr": 1}).encode()
    place = topic(kafka_broker, f"init-debezium-{has_schema}".lower(), [value], key)
    said = init("--source", "kafka", "--from", place, "--table", "shop.t").output
    assert "are changes of rows, as Debezium writes them, with the key nr" in said
    source, sink = settings()
    assert source.topics[0].serde_format == "debezium"
    assert (sink.identifier_columns, sink.upsert) == (["nr"], True)


def test_a_topic_with_schemas_needs_its_registry(kafka_broker: Kafka) -> None:
    with Registry() as registry:
        record = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "int"}]}
        number = registry.register("init-avro-value", record)
        place = topic(kafka_broker, "init-avro", [framed(number, b"\x02")])
        said = init("--source", "kafka", "--from", place, "--table", "a.b").output
        assert "name it: --registry" in said
        Path("pipeline.yaml").unlink()
        said = init("--source", "kafka", "--from", place, "--table", "a.b", "--registry", registry.url).output
    assert f"have schemas of a registry (ids {number}): AVRO" in said
    source, _ = settings()
    assert (source.topics[0].serde_format, source.schema.registry_url) == ("avro", registry.url)


def test_a_topic_that_is_missing_or_empty_is_said(kafka_broker: Kafka) -> None:
    kafka_broker.create_topic("init-empty")
    said = init("--source", "kafka", "--from", f"{kafka_broker.address}/init-missing", "--table", "a.b").output
    assert "The topic init-missing does not exist; there are: " in said
    Path("pipeline.yaml").unlink()
    said = init("--source", "kafka", "--from", f"{kafka_broker.address}/init-empty", "--table", "a.b").output
    assert "The topic init-empty has no records yet" in said


def test_a_bucket_shows_its_format_and_the_table_of_an_object(
    object_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "AWS_REGION": REGION}
    for name, value in {**names, "AWS_ENDPOINT_URL": object_store.endpoint}.items():
        monkeypatch.setenv(name, value)
    world = World(object_store, tmp_path)
    obstore.put(world.store, f"{world.prefix}a.csv", b"id,total\n1,9.5\n")
    obstore.put(world.store, f"{world.prefix}notes.md", b"x")
    said = init("--source", "s3", "--from", f"s3://{BUCKET}/{world.prefix}", "--table", "shop.orders").output
    assert "There are 2 objects, csv by their names" in said
    assert "total double" in said
    assert settings()[0].codec.csv.infer_types is True
