"""What a table asks of its writer is looked at before its events are written; the catalog here is a dict."""

import logging
from dataclasses import replace

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import FixedType, LongType, NestedField, StructType, TimeType

from calve.columns.fields import ALL_FIELDS, Fields
from calve.errors import SinkUnavailableError, UnsupportedError
from calve.observe.log import Log
from calve.route.by_table import ByTable
from calve.sinks.iceberg.idle_tables import IdleTables
from calve.sinks.iceberg.ignored_options import other_pipelines
from calve.sinks.iceberg.mirrors import Mirrors
from calve.sinks.iceberg.settings import IcebergSettings
from calve.sinks.iceberg.targets import SinkTargets
from calve.sources.source import SourceTable
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


def keyed(*ids):
    """A schema of id and n with these identifier fields."""
    fields = [NestedField(number, name, LongType(), required=True) for number, name in ((1, "id"), (2, "n"))]
    return Schema(*fields, identifier_field_ids=list(ids)).model_dump_json()


def test_a_mirror_whose_columns_readers_cannot_distinguish_is_not_created_and_the_reason_is_logged(caplog):
    columns = Schema(NestedField(1, "id", LongType()), NestedField(2, "ID", LongType()))
    mirrors = Mirrors()
    mirrors.set([SourceTable("public.t", "u", columns.model_dump_json())], {"public.t": "t"})
    made = SinkTargets(Tables(), IcebergSettings(table_identifier="t", auto_create=True), None, Log("p"), mirrors)
    made.fit("t", None)
    reason = "the table t cannot be created: the column ID of its source is not possible: it differs from the column id"
    assert made.known()["t"] == Absent("AMBIGUOUS_FIELD", f"{reason} by case only")
    assert reason in caplog.text


def mirrored(key, own, fields=ALL_FIELDS, **settings):
    """A sink whose table `t` has the key `own`, and mirrors a table with the key `key`."""
    catalog = Tables(t=Table("t", "u", "/t", keyed(*own), '{"spec-id":0,"fields":[]}', format_version=2))
    given = {"operation": '${getMetadata("iceberg_operation")}', "schema_evolution": False, **settings}
    mirrors = Mirrors(fields)
    made = SinkTargets(catalog, IcebergSettings(table_identifier="t", **given), None, Log("p"), mirrors)
    follows(made, key)
    made.fit("t", None)
    return made


def follows(made, key):
    made.mirrors.set([SourceTable("public.t", "u", keyed(*key))], {"public.t": "t"})
    made.begin_batch()


def test_a_target_with_another_key_than_its_source_gets_no_rows_which_would_replace_others(caplog):
    made = mirrored((1, 2), (1,), write_mode="merge-on-read")
    assert made.known()["t"].code == "NO_KEY"
    assert "the key of the table t is id, but that of its source public.t is id, n: set its" in caplog.text
    follows(made, (1,))
    made.fit("t", None)
    assert isinstance(made.known()["t"], Table)
    follows(made, (1, 2))
    assert made.known()["t"].code == "NO_KEY"


def test_a_target_may_have_a_key_that_the_settings_name_or_that_of_its_source():
    for key, more in (((1, 2), {}), ((2,), {"identifier_columns": ["id", "n"]})):
        assert isinstance(mirrored(key, (1, 2), write_mode="merge-on-read", **more).known()["t"], Table)


def test_changes_are_rows_of_a_table_without_a_key_also_when_dead_letters_come_again(caplog):
    history = SourceTable("public.t", "u", keyed(), is_history=True)
    for own, is_history in ((), True), ((1,), False):
        table = Table("t", "u", "/t", keyed(*own), '{"spec-id":0,"fields":[]}', format_version=2)
        settings = IcebergSettings(table_identifier="t", operation="insert", write_mode="merge-on-read")
        made = SinkTargets(Tables(t=table), settings, None, Log("p"), Mirrors())
        made.mirrors.set([history], {"public.t": "t"})
        made.fit("t", None)
        assert isinstance(made.known()["t"], Table) is is_history
        assert made.mirrors.is_history(table) is is_history
    assert "t has a key, and each change of public.t is to be a row of it" in caplog.text
    marked = replace(table, schema_json=keyed(), properties=made.mirrors.marks("t"))
    assert Mirrors().is_history(marked)
    made.mirrors.set([SourceTable("public.t", "u", keyed(1))], {"public.t": "t"})
    assert not made.mirrors.is_history(marked)


def test_rows_are_found_by_all_columns_if_neither_a_table_nor_its_source_has_a_key(caplog):
    source = SourceTable("public.t", "u", keyed(), has_full_rows=True)
    whys = {(): "", (1,): "t has a key, and its source public.t has none"}
    for own, why in whys.items():
        table = Table("t", "u", "/t", keyed(*own), '{"spec-id":0,"fields":[]}', format_version=2)
        settings = IcebergSettings(table_identifier="t", operation="insert")
        made = SinkTargets(Tables(t=table), settings, None, Log("p"), Mirrors())
        made.mirrors.set([source], {"public.t": "t"})
        made.fit("t", None)
        assert made.mirrors.has_full_rows(table) is (not why)
        assert isinstance(made.known()["t"], Table) is (not why)
        assert why in caplog.text
    marked = replace(table, schema_json=keyed(), properties=made.mirrors.marks("t"))
    assert Mirrors().has_full_rows(marked)
    settings = IcebergSettings(table_identifier="t", operation="insert", write_mode="copy-on-write")
    made = SinkTargets(Tables(t=marked), settings, None, Log("p"), Mirrors())
    made.fit("t", None)
    assert "t has no key: its rows go by position" in caplog.text
    assert isinstance(made.known()["t"], Table)
    history = replace(marked, properties={"calve.history": "true"})
    assert not Mirrors().has_full_rows(history)


def test_a_part_of_the_sources_key_is_no_key():
    mirrors = Mirrors(Fields(include=frozenset(["n"])))
    mirrors.set([SourceTable("public.t", "u", keyed(1, 2))], {"public.t": "t"})
    assert mirrors.schema("t").identifier_field_ids == []


KEYS = {"id": "long", "n": "long", "at": "timestamptz", "amount": "decimal(9, 2)", "name": "string"}


def keyed_by(names, **types):
    """A schema with the columns of `KEYS`, or other types of them, and this key."""
    columns = [{"name": name, "type": types.get(name, kind), "required": True} for name, kind in KEYS.items()]
    made = schema_from_columns(columns)
    return Schema(*made.fields, identifier_field_ids=[made.find_field(name).field_id for name in names])


@pytest.mark.parametrize(
    ("source", "target", "columns", "keeps"),
    [
        (["id"], keyed_by(["id"]), [], True),
        (["name", "id"], keyed_by(["id", "name"]), [], True),
        (["id"], keyed_by(["id", "n"]), [], True),
        (["id"], keyed_by([]), ["id"], True),
        (["id"], keyed_by([]), ["at", "id"], True),
        (["id"], keyed_by(["id"]), ["n"], False),
        (["id", "n"], keyed_by(["id"]), [], False),
        (["at"], keyed_by(["at"]), [], False),
        (["amount"], keyed_by(["amount"]), [], False),
        (["id"], keyed_by(["id"], id="string"), [], False),
        ([], keyed_by(["id"]), [], False),
    ],
)
def test_a_mirror_keeps_keys_if_its_own_key_has_all_columns_of_the_sources_key_as_they_are(
    source, target, columns, keeps
):
    mirrors, table = Mirrors(), Table("t", "u", "/t", target.model_dump_json(), '{"spec-id":0,"fields":[]}')
    assert not mirrors.preserve_source_keys({"t": table}, ByTable(columns))
    mirrors.set([SourceTable("a", "u", keyed_by(source).model_dump_json())], {"a": "t"})
    assert mirrors.preserve_source_keys({"t": table}, ByTable(columns)) is keeps
    assert mirrors.preserve_source_keys({}, ByTable(columns)), "nothing is written to a table that is not there"


def test_no_keys_are_kept_where_two_tables_meet_or_one_goes_nobody_knows_where_or_the_key_is_left_out():
    table = Table("t", "u", "/t", keyed(1), '{"spec-id":0,"fields":[]}')
    two = [SourceTable(name, "u", keyed(1)) for name in ("a", "b")]
    mirrors = Mirrors()
    mirrors.set(two, {"a": "t", "b": "o"})
    assert mirrors.preserve_source_keys({"t": table, "o": table}, ByTable([]))
    mirrors.set(two, {"a": "t", "b": "t"})
    assert not mirrors.preserve_source_keys({"t": table}, ByTable([]))
    mirrors.set(two, {"a": "t"})
    assert not mirrors.preserve_source_keys({"t": table}, ByTable([]))
    narrow = Mirrors(Fields(include=frozenset(["n"])))
    narrow.set(two[:1], {"a": "t"})
    assert not narrow.preserve_source_keys({"t": table}, ByTable(["id"]))


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
