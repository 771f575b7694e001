"""Which key finds the rows of a target, and which targets are refused because theirs would replace other rows."""

import logging
from dataclasses import replace

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from calve.columns.fields import ALL_FIELDS, Fields
from calve.observe.log import Log
from calve.route.by_table import ByTable
from calve.sinks.iceberg.mirrors import Mirrors
from calve.sinks.iceberg.settings import IcebergSettings
from calve.sinks.iceberg.targets import SinkTargets
from calve.sources.source import SourceTable
from calve.table.definition import schema_from_columns
from calve.table.loaded import Absent, Table
from sinks.test_iceberg_targets import Tables


@pytest.fixture(autouse=True)
def _heard(monkeypatch):
    monkeypatch.setattr(logging.getLogger("calve"), "propagate", True)


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
