"""What `calve convert` prints is a pipeline that Calve takes, and every property is converted or commented on."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from calve.cli.main import calve
from calve.pipeline.plugins import PLUGINS
from calve.settings import parse_text

BASE = {
    "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
    "topics": "orders",
    "iceberg.tables": "shop.orders",
    "iceberg.catalog.type": "rest",
    "iceberg.catalog.uri": "http://127.0.0.1:8181",
}
TABULAR = {"connector.class": "io.tabular.iceberg.connect.IcebergSinkConnector"}
SMT = "org.apache.kafka.connect.transforms."


def convert(folder: Path, text: str, name: str = "connector.json") -> Result:
    (folder / name).write_text(text)
    return CliRunner().invoke(calve, ["convert", str(folder / name)])


def pipelines(folder: Path, properties: dict[str, Any]) -> tuple[str, list[Any]]:
    """Return the comments, and the settings of the pipelines, which are valid."""
    made = convert(folder, json.dumps({"name": "orders sink", "config": BASE | properties}))
    assert made.exit_code == 0, made.stderr
    return made.stdout, parse_text(made.stdout, PLUGINS, environment={}).pipelines


def one(folder: Path, **properties: Any) -> tuple[str, Any, list[Any]]:
    """Return the comments, the source and the sinks of the one pipeline."""
    text, (pipeline,) = pipelines(folder, properties)
    return text, pipeline.source.value, [sink.value for sink in pipeline.sinks]


def test_the_shortest_connector_is_a_pipeline(tmp_path: Path) -> None:
    text, source, (sink,) = one(tmp_path)
    assert [(topic.name, topic.group_id) for topic in source.topics] == [("orders", "connect-orders sink")]
    assert (sink.table_identifier, sink.catalog["type"], sink.auto_create) == ("shop.orders", "rest", False)
    assert sink.commit_interval.total_seconds() == sink.flush_interval.total_seconds() == 300
    assert text.startswith("# Made by")
    assert "\norders-sink:\n" in text


@pytest.mark.parametrize("form", ["flat", "wrapped", "properties"])
def test_all_forms_of_a_file_are_read(tmp_path: Path, form: str) -> None:
    text, name = json.dumps(BASE | {"name": "c", "tasks.max": 2}), "c.json"
    if form == "wrapped":
        text = json.dumps({"name": "c", "config": BASE | {"tasks.max": "2"}, "tasks": [], "type": "sink"})
    if form == "properties":
        lines = [f"{key} = {value}" for key, value in BASE.items() if key != "topics"]
        text, name = "\n".join(["# a sink", "name: c", "tasks.max=2", "topics=or\\\n   ders", *lines]), "c.properties"
    made = convert(tmp_path, text, name)
    assert made.exit_code == 0, made.stderr
    assert "tasks.max = 2" in made.stdout
    (pipeline,) = parse_text(made.stdout, PLUGINS, environment={}).pipelines
    assert (pipeline.name, pipeline.source.value.topics[0].name) == ("c", "orders")


@pytest.mark.parametrize(
    ("text", "name", "told"),
    [
        ("{", "c.json", "is no valid JSON"),
        ("[1, 2]", "c.json", "is not the configuration of one connector"),
        ('{"config": 1}', "c.json", "`config` is not a JSON object"),
        ('{"topics": ["a"]}', "c.json", "the value of topics is not a text"),
        ("a: 1", "c.yaml", "Calve reads Data Prepper's pipelines directly"),
        ("=", "c.properties", "c.properties:1: expected key=value"),
        (json.dumps(BASE | {"connector.class": "x.S3Sink"}), "c.json", "is a x.S3Sink. calve convert reads"),
        ("{}", "c.json", "has no connector.class"),
        (json.dumps({**BASE, "topics": ""}), "c.json", "has no topics"),
        (json.dumps({**BASE, "iceberg.tables": ""}), "c.json", "names no table"),
        (json.dumps({key: BASE[key] for key in BASE if "catalog" not in key}), "c.json", "names no catalog"),
        (json.dumps(BASE | {"iceberg.tables.dynamic-enabled": "true"}), "c.json", "no route field"),
        (json.dumps(BASE | {"iceberg.tables.route-field": "kind"}), "c.json", "No table has a route-regex"),
    ],
)
def test_a_wrong_file_is_one_sentence_with_the_fix(tmp_path: Path, text: str, name: str, told: str) -> None:
    made = convert(tmp_path, text, name)
    assert (made.exit_code, made.stdout) == (2, "")
    assert told in made.stderr
    assert made.stderr.count("\n") == 1


def test_bytes_that_are_no_text_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_bytes(b"{\xff")
    made = CliRunner().invoke(calve, ["convert", str(tmp_path / "c.json")])
    assert (made.exit_code, "it is not UTF-8 (byte 1)" in made.stderr) == (2, True)


def test_what_calve_cannot_take_is_printed_with_its_errors(tmp_path: Path) -> None:
    made = convert(tmp_path, json.dumps(BASE | {"iceberg.tables.default-partition-by": "hash(id)"}))
    assert made.exit_code == 2
    assert "hash(id)" in made.stdout
    assert "partition_by" in made.stderr


def test_routes_partitions_and_branches_of_tables(tmp_path: Path) -> None:
    text, (pipeline,) = pipelines(
        tmp_path,
        {
            "iceberg.tables": "shop.orders, shop.returns,shop.rest",
            "iceberg.tables.route-field": "meta.kind",
            "iceberg.tables.default-partition-by": "years(at)",
            "iceberg.table.shop.orders.route-regex": r'order"\d+',
            "iceberg.table.shop.orders.partition-by": "days(at), bucket(id, 16), truncate( name,4 ),kind",
            "iceberg.table.shop.returns.route-regex": "return",
            "iceberg.table.shop.returns.commit-branch": "audit",
        },
    )
    first, second = [sink.value for sink in pipeline.sinks]
    assert first.partition_by == ["day(at)", "bucket(16, id)", "truncate(4, name)", "kind"]
    assert (second.partition_by, second.branch) == (["year(at)"], "audit")
    assert list(pipeline.routes.values()) == ['/meta/kind =~ """order"\\d+"""', '/meta/kind =~ """return"""']
    assert "iceberg.tables: shop.rest" in text


def test_dynamic_tables_take_their_name_from_the_field(tmp_path: Path) -> None:
    dynamic = {"iceberg.tables": None, "iceberg.tables.dynamic-enabled": "true"}
    _, _, (sink,) = one(tmp_path, **dynamic, **{"iceberg.tables.route-field": "db.table"})
    assert sink.table_identifier == "${/db/table}"
    insert = {"transforms": "t", "transforms.t.type": f"{SMT}InsertField$Value", "transforms.t.topic.field": "_t"}
    _, _, (sink,) = one(tmp_path, **dynamic, **insert, **{"iceberg.tables.route-field": "_t"})
    assert (sink.table_identifier, sink.metadata_columns) == ('${getMetadata("kafka_topic")}', {"_t": "kafka_topic"})


def test_settings_of_dynamic_tables_are_entries_of_the_sink(tmp_path: Path) -> None:
    given: dict[str, str | None] = {
        "iceberg.tables": None,
        "iceberg.tables.dynamic-enabled": "true",
        "iceberg.tables.route-field": "t",
        "iceberg.table.shop.orders.id-columns": "id,line",
        "iceberg.table.shop.orders.partition-by": "days(at)",
        "iceberg.table.shop.audit.commit-branch": "raw",
    }
    text, _, (sink,) = one(tmp_path, **given)
    assert (sink.of("shop.orders").partition_by, sink.of("shop.orders").identifier_columns) == (["day(at)"], [])
    assert (sink.of("shop.audit").branch, sink.of("shop.rest").branch) == ("raw", None)
    assert "iceberg.table.shop.orders.id-columns = id,line" in text
    keyed = TABULAR | {"iceberg.tables.upsert-mode-enabled": "true", "iceberg.tables.default-id-columns": "id"}
    _, _, (sink,) = one(tmp_path, **given, **keyed)
    assert (sink.of("shop.orders").identifier_columns, sink.of("shop.b").identifier_columns) == (["id", "line"], ["id"])


def test_settings_of_a_table_that_the_connector_does_not_have_get_a_comment(tmp_path: Path) -> None:
    text, _, _ = one(tmp_path, **{"iceberg.table.shop.order.commit-branch": "audit"})
    assert "iceberg.table.shop.order.commit-branch = audit" in text
    assert "No table of iceberg.tables has this name" in text


@pytest.mark.parametrize("pattern", ["1", "tr.*", "order|[0-9]+", "x?1", "(?i)order", ".*"])
def test_a_pattern_that_may_match_a_number_or_boolean_is_matched_with_its_text(tmp_path: Path, pattern: str) -> None:
    routes = {"iceberg.tables.route-field": "meta.kind", "iceberg.table.shop.orders.route-regex": pattern}
    text, (pipeline,) = pipelines(tmp_path, routes)
    assert list(pipeline.routes.values()) == [f'/_calve_route =~ """{pattern}"""']
    assert list(pipeline.sinks[0].exclude_keys) == ["_calve_route"]
    assert "format: ${/meta/kind}" in text


@pytest.mark.parametrize("pattern", ["order.*", "order|visit", "Order?s"])
def test_a_pattern_of_texts_only_is_matched_with_the_field(tmp_path: Path, pattern: str) -> None:
    routes = {"iceberg.tables.route-field": "kind", "iceberg.table.shop.orders.route-regex": pattern}
    _, (pipeline,) = pipelines(tmp_path, routes)
    assert list(pipeline.routes.values()) == [f'/kind =~ """{pattern}"""']


def test_fields_that_a_change_stream_adds_are_columns_and_routes_of_metadata(tmp_path: Path) -> None:
    unwrap = {"transforms": "u", "transforms.u.type": "io.debezium.transforms.ExtractNewRecordState"}
    unwrap |= {"transforms.u.add.fields": "op,table:from,source.ts_ms,txId"}
    routes = {"iceberg.tables.route-field": "__from", "iceberg.table.shop.orders.route-regex": "orders|1"}
    text, (pipeline,) = pipelines(tmp_path, unwrap | routes)
    assert list(pipeline.routes.values()) == ['getMetadata("debezium_source_table") =~ """orders|1"""']
    columns = {"__op": "debezium_op", "__from": "debezium_source_table", "__source_ts_ms": "debezium_source_ts_ms"}
    assert pipeline.sinks[0].value.metadata_columns == columns
    assert "add.fields = txId" in text
    dynamic = {"iceberg.tables": None, "iceberg.tables.dynamic-enabled": "true", "iceberg.tables.route-field": "__from"}
    _, _, (sink,) = one(tmp_path, **unwrap, **dynamic)
    assert sink.table_identifier == '${getMetadata("debezium_source_table")}'


def test_a_pattern_for_a_field_that_joins_two_is_refused(tmp_path: Path) -> None:
    debezium = {"transforms": "d", "transforms.d.type": "org.apache.iceberg.connect.transforms.DebeziumTransform"}
    routes = {"iceberg.tables.route-field": "_cdc.target", "iceberg.table.shop.orders.route-regex": "a.b"}
    refused = convert(tmp_path, json.dumps(BASE | debezium | routes))
    assert refused.exit_code == 2
    assert "cannot match _cdc.target with a pattern" in refused.stderr


def test_nested_kafka_metadata_is_one_struct(tmp_path: Path) -> None:
    kind = "org.apache.iceberg.connect.transforms.KafkaMetadataTransform"
    given = {"transforms": "m", "transforms.m.type": kind, "transforms.m.nested": "true"}
    text, _, (sink,) = one(tmp_path, **given, **{"transforms.m.external_field": "env,prod"})
    assert sink.metadata_columns == {}
    keys = re.findall(r"key: (_kafka_metadata/\w+)", text)
    assert keys == [f"_kafka_metadata/{name}" for name in ("topic", "partition", "offset", "timestamp", "env")]


def test_options_and_properties_of_tables(tmp_path: Path) -> None:
    flags = ("auto-create-enabled", "evolve-schema-enabled", "schema-case-insensitive", "schema-force-optional")
    given = {f"iceberg.tables.{flag}": "true" for flag in flags}
    given |= {"iceberg.tables.auto-create-props.format-version": "3", "iceberg.tables.write-props.a.b": "c"}
    given |= {"iceberg.control.commit.interval-ms": 5000, "iceberg.catalog": "lake"}
    text, _, (sink,) = one(tmp_path, **given)
    assert (sink.auto_create, sink.schema_evolution, sink.case_insensitive) == (True, True, True)
    assert (sink.table_properties, sink.write_properties) == ({"format-version": "3"}, {"a.b": "c"})
    assert (sink.commit_interval.total_seconds(), sink.catalog["name"]) == (5, "lake")
    assert "schema-force-optional" in text


def test_updates_are_those_of_the_older_sink_only(tmp_path: Path) -> None:
    keys = {"iceberg.tables.default-id-columns": "id, at", "iceberg.tables.cdc-field": "_cdc.op"}
    keys |= {"iceberg.tables.upsert-mode-enabled": "true"}
    text, _, (sink,) = one(tmp_path, **keys)
    assert not sink.changes
    assert text.count("Without effect") == 2
    _, _, (sink,) = one(tmp_path, **TABULAR, **keys)
    assert (sink.operation, sink.upsert, sink.identifier_columns) == ("${/_cdc/op}", True, ["id", "at"])


def test_change_streams_are_applied(tmp_path: Path) -> None:
    kind = "org.apache.iceberg.connect.transforms.DebeziumTransform"
    given = {
        "iceberg.tables.dynamic-enabled": "true",
        "iceberg.tables.route-field": "_cdc.target",
        "iceberg.tables": None,
    }
    given |= {"transforms": "d,x", "transforms.d.type": kind, "transforms.d.cdc.target.pattern": "raw.{db}_{table}"}
    given |= {"transforms.x.type": f"{SMT}ReplaceField$Value", "transforms.x.exclude": "a"}
    text, source, (sink,) = one(tmp_path, **given)
    assert source.topics[0].serde_format == "debezium"
    assert sink.upsert
    parts = ('${getMetadata("debezium_source_schema")}', '${getMetadata("debezium_source_table")}')
    assert sink.table_identifier == "raw.{}_{}".format(*parts)
    assert "these were left out: delete_entries" in text


def test_transforms_become_processors(tmp_path: Path) -> None:
    kinds = {
        "a": (f"{SMT}InsertField$Value", {"static.field": "s", "static.value": "v", "offset.field": "_o!"}),
        "b": (f"{SMT}ReplaceField$Value", {"exclude": "x,y", "include": "id", "renames": "a:b"}),
        "c": (f"{SMT}Cast$Value", {"spec": "n:int64,m:string"}),
        "d": ("org.apache.iceberg.connect.transforms.CopyValue", {"source.field": "f", "target.field": "g"}),
        "e": (f"{SMT}Flatten$Value", {"delimiter": "_"}),
        "f": ("x.Own$Value", {"predicate": "p"}),
        "g": (f"{SMT}ValueToKey$Key", {}),
    }
    given = {f"transforms.{alias}.{key}": value for alias, (_, keys) in kinds.items() for key, value in keys.items()}
    given |= {f"transforms.{alias}.type": kind for alias, (kind, _) in kinds.items()}
    text, (pipeline,) = pipelines(tmp_path, given | {"transforms": ", ".join(kinds), "predicates": "p"})
    names = [processor.name for processor in pipeline.processors]
    assert names == [
        "add_entries", "delete_entries", "select_entries", "rename_keys", "convert_type", "convert_type", "copy_values", "flatten",
    ]  # fmt: skip
    assert pipeline.sinks[0].value.metadata_columns == {"_o": "kafka_offset"}
    for remark in ("transforms.f = x.Own$Value", "transforms.f.predicate", "transforms.g", "predicates = p"):
        assert remark in text


def test_connections_are_converted_and_secrets_are_not_in_comments(tmp_path: Path) -> None:
    login = 'x.ScramLoginModule required username="me" password="ge;heim";'
    given = {"iceberg.kafka.bootstrap.servers": "a:1, b:2", "consumer.override.security.protocol": "SASL_SSL"}
    given |= {"consumer.override.sasl.mechanism": "SCRAM-SHA-256", "consumer.override.sasl.jaas.config": login}
    given |= {"consumer.override.ssl.truststore.location": "t.jks", "consumer.override.max.poll.records": "9"}
    given |= {"iceberg.hadoop.fs.azure.account.key.me": "geheim", "iceberg.hadoop.fs.s3a.secret.key": "geheim"}
    given |= {"hidden.password": "geheim", "iceberg.catalog.token": "${file:/run/x.properties:my.token}"}
    text, source, (sink,) = one(tmp_path, **given)
    client = source.client()
    assert (client["bootstrap.servers"], client["security.protocol"]) == ("a:1,b:2", "SASL_SSL")
    assert (client["sasl.username"], client["sasl.password"]) == ("me", "ge;heim")
    assert sink.catalog["token"] == ""
    assert "Set the environment variable MY_TOKEN" in text
    comments = "\n".join(line for line in text.splitlines() if line.startswith("#"))
    assert "truststore" in comments
    assert "hidden.password = …" in comments
    assert "heim" not in comments


@pytest.mark.parametrize(
    ("converter", "serde"),
    [("AvroConverter", "avro"), ("ProtobufConverter", "protobuf"), ("json.JsonSchemaConverter", "json_schema")],
)
def test_a_schema_registry_is_converted(tmp_path: Path, converter: str, serde: str) -> None:
    given = {"value.converter": f"io.confluent.connect.{converter}", "value.converter.a": "b"}
    login = {"basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": "me:geheim"}
    login["schema.registry.url"] = "https://registry:8081,https://other:8081"
    given |= {f"value.converter.{key}": value for key, value in login.items()}
    text = convert(tmp_path, json.dumps(BASE | given)).stdout
    source = yaml.safe_load(text)["connect"]["source"]["kafka"]
    assert source["topics"][0]["serde_format"] == serde
    assert source["schema"] == {
        "type": "confluent",
        "registry_url": "https://registry:8081",
        "schema_registry_api_key": "me",
        "schema_registry_api_secret": "geheim",
    }
    assert "value.converter.a = b" in text
    if serde == "avro":
        assert parse_text(text, PLUGINS, environment={}).pipelines
    text = convert(tmp_path, json.dumps(BASE | {"value.converter": f"x.{converter}"})).stdout
    assert "set SCHEMA_REGISTRY_URL" in text


def test_keys_in_avro_of_the_same_registry_are_decoded(tmp_path: Path) -> None:
    avro = "io.confluent.connect.avro.AvroConverter"
    keys = {"key.converter": avro, "key.converter.schema.registry.url": "http://r:8081", "key.converter.other": "x"}
    given = BASE | {"value.converter": avro, "value.converter.schema.registry.url": "http://r:8081"} | keys
    text = convert(tmp_path, json.dumps(given)).stdout
    schema = yaml.safe_load(text)["connect"]["source"]["kafka"]["schema"]
    assert schema == {"type": "confluent", "registry_url": "http://r:8081", "key_format": "avro"}
    assert parse_text(text, PLUGINS, environment={}).pipelines
    assert "key.converter.other" in text
    assert "key.converter.schema" not in text
    plain = json.dumps(given | {"key.converter": "org.apache.kafka.connect.storage.StringConverter"})
    assert "key_format" not in convert(tmp_path, plain).stdout


def test_a_registry_of_change_streams_is_converted_if_they_are_avro(tmp_path: Path) -> None:
    given = {**BASE, "transforms": "d", "transforms.d.type": "io.debezium.transforms.ExtractNewRecordState"}
    text = convert(tmp_path, json.dumps(given | {"value.converter": "x.AvroConverter"})).stdout
    source = yaml.safe_load(text)["connect"]["source"]["kafka"]
    assert (source["topics"][0]["serde_format"], source["schema"]["type"]) == ("debezium", "confluent")
    assert parse_text(text, PLUGINS, environment={}).pipelines
    text = convert(tmp_path, json.dumps(given | {"value.converter": "x.ProtobufConverter"})).stdout
    assert "schema" not in yaml.safe_load(text)["connect"]["source"]["kafka"]
    assert "Calve reads" in text


def test_any_number_of_topics_and_a_pattern_are_one_source(tmp_path: Path) -> None:
    _, source, _ = one(tmp_path, topics=",".join(f"t{number}" for number in range(23)))
    assert [topic.name for topic in source.topics] == [f"t{number}" for number in range(23)]
    _, source, _ = one(tmp_path, **{"topics": None, "topics.regex": r"shop\..*"})
    assert [(topic.name, topic.pattern, topic.group_id) for topic in source.topics] == [
        (None, r"shop\..*", "connect-orders sink")
    ]


def test_every_property_is_converted_or_commented_on(tmp_path: Path) -> None:
    """Properties that change what is written are in the pipeline; all others, unknown ones too, are in a comment."""
    names = [
        "tasks.max", "key.converter", "iceberg.control.topic", "iceberg.control.commit.threads", "errors.tolerance",
        "iceberg.coordinator.transactional.prefix", "iceberg.hadoop-conf-dir", "iceberg.hadoop.a", "iceberg.table.x.y",
        "iceberg.coordinator-executor-keep-alive-timeout-ms", "iceberg.tables.unknown", "whatever",
    ]  # fmt: skip
    text, _, _ = one(tmp_path, **dict.fromkeys(names, "1"))
    comments = "\n".join(line for line in text.splitlines() if line.startswith("#"))
    assert [name for name in names if name not in comments] == []


def test_the_topic_of_dead_letters_gets_those_of_all_sinks(tmp_path: Path) -> None:
    names = {"topic.name": "dead", "topic.replication.factor": "1", "context.headers.enable": "true"}
    given = {f"errors.deadletterqueue.{name}": value for name, value in names.items()}
    text, source, sinks = one(tmp_path, **given, **{"consumer.override.security.protocol": "SSL"})
    (topic,) = {sink.dlq_topic and sink.dlq_topic.topic for sink in sinks}
    assert topic == "dead"
    assert sinks[0].dlq_topic.client() == source.client()
    assert "errors.deadletterqueue.context.headers.enable = true" in text


def test_the_example_of_the_page_is_what_is_printed(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "from-kafka-connect.md").read_text()
    given, printed = (re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL)[0] for kind in ("json", "yaml"))
    assert [line for line in convert(tmp_path, given).stdout.splitlines() if line[0] != "#"] == printed.splitlines()


def test_json_to_map_is_json_whose_objects_are_maps(tmp_path: Path) -> None:
    smt = {"transforms": "m", "transforms.m.type": "org.apache.iceberg.connect.transforms.JsonToMapTransform"}
    converter = {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
    text, source, (sink,) = one(tmp_path, **smt, **converter)
    assert (source.topics[0].serde_format, sink.objects, sink.upsert) == ("json", "map", False)
    assert "JsonToMap" not in text
    assert "overflow: {column: payload}" in one(tmp_path, **smt, **{"transforms.m.json.root": "true"})[0]


def test_documents_of_mongodb_are_read_from_their_envelopes(tmp_path: Path) -> None:
    kind = "org.apache.iceberg.connect.transforms.MongoDebeziumTransform"
    text, source, (sink,) = one(tmp_path, transforms="m", **{"transforms.m.type": kind})
    assert (source.topics[0].serde_format, sink.upsert) == ("debezium", True)
    assert "MongoDebezium" not in text
