"""What a table asks of its writer is looked at before its events are written; the catalog here is a dict."""

import logging

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import FixedType, LongType, NestedField, StructType, TimeType

from calve.errors import SinkUnavailableError, UnsupportedError
from calve.observe.log import Log
from calve.sinks.iceberg.idle_tables import IdleTables
from calve.sinks.iceberg.ignored_options import other_pipelines
from calve.sinks.iceberg.settings import IcebergSettings
from calve.sinks.iceberg.targets import SinkTargets
from calve.table.definition import schema_from_columns
from calve.table.loaded import Absent, Table

SCHEMA = Schema(NestedField(1, "id", LongType())).model_dump_json()


class Tables(dict):
    """A catalog of tables that exist, and which were asked for."""

    name = "lake"

    def __init__(self, *tables, **named):
        super().__init__(*tables, **named)
        self.asked = []

    def load(self, name):
        self.asked.append(name)
        return self.get(name)


def targets(static=None, write_properties=None, **tables):
    catalog = Tables({name: table(name, properties) for name, properties in tables.items()})
    settings = IcebergSettings(table_identifier=static or "${/t}", write_properties=write_properties or {})
    return SinkTargets(catalog, settings, static, Log("p"))


def table(name, properties):
    return Table(name, "u", "/t", SCHEMA, '{"spec-id":0,"fields":[]}', properties=properties)


@pytest.fixture(autouse=True)
def _heard(monkeypatch):
    monkeypatch.setattr(logging.getLogger("calve"), "propagate", True)


def test_a_table_that_wants_other_files_is_held_alone_and_its_events_rejected_with_the_reason(caplog):
    made = targets(orc={"write.format.default": "lance"}, fine={})
    for name in ("orc", "fine"):
        made.fit(name, None)
    known = made.known()
    assert isinstance(known["fine"], Table)
    assert known["orc"] == Absent(
        "SINK_REFUSED", "Table orc requires lance files, but Calve writes only Parquet, Avro and ORC"
    )
    assert "write_properties: {write.format.default: parquet}" in caplog.text


def test_it_is_told_once_and_looked_at_anew_with_each_batch(caplog):
    made = targets(orc={"write.format.default": "lance"})
    for _ in range(3):
        made.begin_batch()
        made.fit("orc", None)
    assert len(caplog.records) == 1
    made.catalog["orc"] = table("orc", {})
    made.begin_batch()
    made.fit("orc", None)
    assert isinstance(made.known()["orc"], Table)


@pytest.mark.parametrize(
    ("properties", "written", "warned"),
    [
        ({"calve.mark.old": "{}"}, (), True),
        ({"calve.mark.old@audit": "{}"}, (), True),
        ({"calve.mark.p": "{}"}, (), False),
        ({"calve.mark.p.replay": "{}"}, (), False),
        ({"calve.mark.old": "{}"}, ("shared",), False),
        ({}, (), False),
    ],
)
def test_a_new_pipeline_at_a_table_of_another_one_may_be_the_same_under_a_new_name(caplog, properties, written, warned):
    made = targets(shared=properties)
    made.written = frozenset(written)
    made.fit("shared", None)
    assert (
        "shared has rows of old, and p is new. If it is the same pipeline under a new name" in caplog.text
    ) is warned


def test_a_replay_of_dead_letters_is_no_pipeline_under_a_new_name():
    table = targets(shared={"calve.mark.old": "{}"}).catalog.load("shared")
    assert other_pipelines(table, "new")
    assert other_pipelines(table, "old.replay") == other_pipelines(table, "new.replay") == ""


def test_a_survey_loads_what_exists_and_makes_nothing():
    made = targets(orc={"write.format.default": "lance"}, fine={})
    assert [made.find(name) for name in ("fine", "fine", "orc", "new")] == [True, True, False, False]
    assert list(made.known()) == ["fine"]
    assert made.catalog.asked == ["fine", "orc", "new"]


def test_a_survey_ends_where_the_catalog_does_not_answer(monkeypatch):
    made = targets(fine={})

    def gone(name):
        raise SinkUnavailableError("gone", step="catalog")

    monkeypatch.setattr(made.catalog, "load", gone)
    with pytest.raises(SinkUnavailableError):
        made.find("fine")


def test_write_properties_decide_instead_of_the_table():
    made = targets(write_properties={"write.format.default": "parquet"}, orc={"write.format.default": "lance"})
    made.fit("orc", None)
    assert isinstance(made.known()["orc"], Table)


def test_the_one_table_of_a_sink_that_wants_other_files_ends_the_start():
    made = targets("orc", orc={"write.format.default": "lance"})
    with pytest.raises(UnsupportedError, match="lance files"):
        made.open()


def test_a_table_that_changes_its_mind_is_met_as_an_unknown_one():
    made = targets(t={})
    made.fit("t", None)
    made.catalog["t"] = table("t", {"write.parquet.compression-codec": "lzo"})
    made.refresh("t")
    assert "t" not in made.known()


def test_a_commit_to_the_table_of_another_sink_asks_the_catalog_for_nothing():
    made = targets(t={}, other={})
    made.fit("t", None)
    made.catalog.asked.clear()
    made.refresh("other")
    assert made.catalog.asked == []
    made.refresh("t")
    assert made.catalog.asked == ["t"]


def test_a_table_that_a_commit_tells_is_not_loaded_again_and_stays_the_same_if_only_marks_differ():
    made = targets(t={"calve.mark.p": "1"})
    made.fit("t", None)
    before = made.known()["t"]
    made.catalog.asked.clear()
    made.refresh("t", table("t", {"calve.mark.p": "2"}))
    assert made.known()["t"] is before
    assert made.catalog.asked == []
    made.catalog["t"] = table("t", {"calve.mark.p": "3", "write.parquet.compression-codec": "gzip"})
    made.refresh("t", made.catalog["t"])
    assert made.known()["t"].properties["write.parquet.compression-codec"] == "gzip"


def test_a_table_as_a_commit_left_it_does_not_hide_what_was_added_since():
    made = targets(t={})
    made.fit("t", None)
    committed, made.catalog["t"] = made.catalog["t"], table("t", {"added": "since"})
    made.refresh("t")
    made.refresh("t", committed)
    assert made.known()["t"].properties == {"added": "since"}


def test_of_two_that_look_at_a_table_at_once_the_older_look_does_not_win():
    made = targets(t={})
    made.fit("t", None)
    load, old = made.catalog.load, table("t", {"looked": "before"})

    def slow(name):
        made.catalog.load = load
        made.catalog[name] = table(name, {"added": "since"})
        made.refresh(name)
        return old

    made.catalog.load = slow
    made.refresh("t")
    assert made.known()["t"].properties == {"added": "since"}


def test_a_property_that_cannot_be_read_is_warned_of_once_and_the_table_is_written(caplog):
    made = targets(t={"write.parquet.row-group-size-bytes": "abc", "calve.mark.p": "1"})
    made.fit("t", None)
    made.catalog["t"] = table("t", {"write.parquet.row-group-size-bytes": "abc", "calve.mark.p": "2"})
    made.refresh("t")
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert "the table t has write.parquet.row-group-size-bytes: 'abc'" in record.getMessage()
    assert isinstance(made.known()["t"], Table)


def test_a_column_that_spark_cannot_read_is_told_at_the_start_where_spark_finds_the_rows():
    schema = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "in", StructType(NestedField(3, "at", TimeType()))),
        identifier_field_ids=[1],
    )
    timed = Table("t", "u", "/t", schema.model_dump_json(), '{"spec-id":0,"fields":[]}')
    settings = IcebergSettings(table_identifier="t", upsert=True, write_mode="copy-on-write")
    with pytest.raises(UnsupportedError, match=r"cannot handle in\.at \(time\)"):
        SinkTargets(Tables(t=timed), settings, "t", Log("p")).open()
    settings = IcebergSettings(table_identifier="t", upsert=True, partial_updates="keep")
    SinkTargets(Tables(t=timed), settings, "t", Log("p")).open()


def test_rows_are_not_deleted_by_a_key_that_readers_in_java_mistake():
    inner = StructType(NestedField(3, "code", FixedType(3), required=True))
    fields = [NestedField(1, "id", LongType(), required=True), NestedField(2, "of", inner, required=True)]
    schema = Schema(*fields, identifier_field_ids=[1, 3])
    fixed = Table("t", "u", "/t", schema.model_dump_json(), '{"spec-id":0,"fields":[]}')
    changing = {"table_identifier": "t", "operation": "${/op}"}
    by_key = IcebergSettings(**changing, write_mode="equality-delete")
    with pytest.raises(UnsupportedError, match=r"deleted by their key where of\.code is a fixed\[3\]"):
        SinkTargets(Tables(t=fixed), by_key, "t", Log("p")).open()
    SinkTargets(Tables(t=fixed), IcebergSettings(**changing), "t", Log("p")).open()
    SinkTargets(Tables(t=fixed), IcebergSettings(table_identifier="t"), "t", Log("p")).open()


def test_of_many_tables_those_that_no_recent_batch_used_are_loaded_again_when_they_are_needed():
    made = targets(**{name: {} for name in "abcd"})
    made._idle = IdleTables(kept=2, batches=1)
    for name in "abcd":
        made.fit(name, None)
    for _ in range(3):
        made.begin_batch()
        made.use(["d", "of another sink"])
    made.begin_batch()
    assert len(made.known()) == 2
    assert "d" in made.known()
    assert all(made.has(name) for name in "abcd"), "commits of its files still find their settings"
    before = len(made.catalog.asked)
    assert made.find("a")
    assert made.find("b")
    assert made.find("d")
    assert before < len(made.catalog.asked) <= before + 2


@pytest.mark.parametrize(
    ("kind", "properties", "options", "said"),
    [
        ("variant", {}, {}, "is to have avro files, which cannot hold v (variant)"),
        (
            "time",
            {},
            {"upsert": True, "identifier_columns": ["id"]},
            "finds the rows for changes of avro files, cannot",
        ),
        ("string", {"calve.full-rows": "true"}, {"operation": "${/op}"}, "has avro files and no key"),
        ("time", {}, {}, ""),
        ("string", {}, {"upsert": True, "identifier_columns": ["id"]}, ""),
        ("variant", {}, {"write_properties": {"write.format.default": "parquet"}}, ""),
    ],
)
def test_what_only_parquet_can_have_refuses_a_table_of_another_format_with_the_way_out(kind, properties, options, said):
    fields = [("id", "long", True), ("v", kind, False)]
    schema = schema_from_columns([{"name": name, "type": text, "required": must} for name, text, must in fields])
    avro = {"write.format.default": "avro", **properties}
    spec = '{"spec-id":0,"fields":[]}'
    made = Table("a.b", "u", "/t", schema.model_dump_json(), spec, format_version=3, properties=avro)
    sink = SinkTargets(Tables({"a.b": made}), IcebergSettings(table_identifier="${/t}", **options), None, Log("p"))
    sink.fit("a.b", None)
    found = sink.known()["a.b"]
    assert (said in found.reason) if said else isinstance(found, Table)


def test_names_of_tables_that_do_not_exist_are_not_kept():
    made = targets()
    made.fit("t.absent", None)
    made.begin_batch()
    assert made._idle._used == {}
