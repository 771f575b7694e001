"""Columns of a table that is made from events can be what the settings ask of them, whatever the first events hold."""

from dataclasses import replace

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import IdentityTransform

from calve.columns.declared_types import ColumnTypes
from calve.columns.infer import infer
from calve.dead_letters.rejects import DeadLetterLocation
from calve.expression import compile_format
from calve.reduce.key import identified
from calve.route.sink_route import SinkRoute
from calve.sinks.iceberg.draft_rules import DraftRules
from calve.sinks.iceberg.inferred import fitted, unclear_columns
from calve.sinks.iceberg.job import TableJob
from calve.sinks.iceberg.settings import IcebergSettings
from calve.table.definition import schema_from_columns
from kit.tables import table_of


def columns(event, types=None, **options):
    settings = IcebergSettings(table_identifier="a.b", auto_create=True, **options)
    schema = fitted(infer(pa.table({"event": [event.encode()]})).to_schema(), settings, ColumnTypes(types or {}))
    return {field.name: str(field.field_type) for field in schema.fields}


@pytest.mark.parametrize("value", ["0.5", '{"a": 1}', "[1]"])
def test_a_key_that_cannot_be_one_as_it_is_is_a_string(value):
    assert columns(f'{{"id": {value}, "v": 0.5}}', identifier_columns=["id"]) == {"id": "string", "v": "double"}


def test_a_type_that_the_settings_name_stays():
    found = columns('{"id": 0.5}', {"id": "decimal(9,2)"}, identifier_columns=["id"], partition_by=["bucket(4, id)"])
    assert found["id"] == "double"  # inference knows of the type, and this step leaves its choice alone


@pytest.mark.parametrize(
    ("value", "partition", "kind"),
    [
        ("12", "day(p)", "timestamptz"),
        ('"x"', "hour(p)", "timestamptz"),
        ("0.5", "month(p)", "timestamptz"),
        ("0.5", "bucket(4, p)", "string"),
        ("0.5", "p", "double"),
        ('{"a": 1}', "p", "string"),
        ("12", "truncate(10, p)", "long"),
    ],
)
def test_a_partition_column_has_a_type_that_can_be_divided(value, partition, kind):
    assert columns(f'{{"p": {value}}}', partition_by=[partition])["p"] == kind


def test_a_partition_column_that_no_event_has_had_is_made_all_the_same():
    found = columns('{"id": 1}', partition_by=["day(at)", "bucket(4, region)"])
    assert found == {"id": "long", "at": "timestamptz", "region": "string"}


def test_only_columns_that_no_setting_declares_take_no_offset():
    columns = [{"name": name, "type": "timestamp"} for name in ("free", "given_at")]
    columns += [{"name": name, "type": f"struct<at: timestamp, {name}: int>"} for name in ("deep", "open")]
    types = ColumnTypes({"*_at": "timestamp", "deep.at": "timestamp"})
    route = SinkRoute(compile_format("a.b"))
    job = TableJob("iceberg", route, DeadLetterLocation(""), "c", {}, rules=DraftRules(types))
    table = table_of(schema_from_columns(columns))
    inferred = replace(table, properties={"calve.columns": "inferred"})
    assert job.options(inferred).local_times == {"free", "open"}
    assert job.options(table).local_times == frozenset()


MIXED = ['{"k": 1, "v": 1, "a b": 1, "at": 1}', '{"k": "x", "v": "x", "a b": {}, "at": "x"}']


def unclear(events, **options):
    settings = IcebergSettings(table_identifier="a.b", auto_create=True, **options)
    inferred = infer(pa.table({"event": [event.encode() for event in events]}))
    schema = identified(fitted(inferred.to_schema(), settings, ColumnTypes({})), settings.identifier_columns)
    spec = PartitionSpec(*[PartitionField(schema.find_field(name).field_id, 1000, IdentityTransform(), name)
                           for name in ("v",) if options.get("partition_by")])  # fmt: skip
    table = replace(table_of(schema), spec_json=spec.model_dump_json())
    return list(unclear_columns(table, inferred, ColumnTypes({})))


def test_a_hint_for_a_key_or_a_partition_names_a_type_that_can_be_there():
    assert "column_types: {k: double} sets" in unclear(MIXED)[0]
    assert "column_types: {k: long} sets" in unclear(MIXED, identifier_columns=["k"])[0]
    assert (
        "column_types: {v: long} sets" in unclear([text.replace('"k"', '"v"') for text in MIXED], partition_by=["v"])[0]
    )


def test_a_hint_can_be_copied_whatever_the_name_is():
    assert 'column_types: {"a b": double}' in unclear([text.replace('"k"', '"a b"') for text in MIXED])[0]


def test_a_column_that_became_a_time_for_its_partition_is_not_called_a_string():
    [line] = unclear(MIXED, partition_by=["day(at)"])
    assert ": k, v and a b. " in line or ": k, v, a b. " in line
