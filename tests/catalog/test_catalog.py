"""Tables come into being and grow through any of Iceberg's catalogs, whoever else writes."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.transforms import parse_transform
from pyiceberg.types import LongType
from pyspark.sql import SparkSession

from calve.catalog.catalog import Catalog, embedded
from calve.columns.evolve import Evolution, NewColumn
from calve.commit.fence import append
from calve.commit.mark import CommitTarget, Mark
from calve.engine import session
from calve.errors import (
    CalveError,
    CommitError,
    EngineError,
    NoTargetError,
    SchemaConflictError,
    SetupError,
    SinkUnavailableError,
)
from calve.record.content_file import ContentFile
from calve.table.definition import schema_from_columns
from calve.write.writer import Writers

pytestmark = pytest.mark.spark


def fields(*columns: tuple[str, Any]) -> str:
    found = [{"id": 10 + n, "name": name, "required": False, "type": kind} for n, (name, kind) in enumerate(columns)]
    return json.dumps({"type": "struct", "schema-id": 0, "fields": found})


def test_a_table_that_is_missing_is_none(lake: Any) -> None:
    assert lake.catalog.load("db.other") is None
    assert lake.catalog.load("no.such.namespace") is None


def test_a_table_is_described_by_plain_values(lake: Any) -> None:
    table = lake.catalog.create("db.plain", fields(("id", "long")), properties={"owner": "me", "format-version": "3"})
    assert (table.identifier, table.format_version, table.properties["owner"]) == ("db.plain", 3, "me")
    assert [column.field_id for column in table.schema.fields] == [1]  # the catalog's ids, not those asked for
    assert table.location.endswith("/db/plain")
    assert lake.catalog.load("db.plain") == table


def test_the_tables_sort_order_is_that_of_its_files(lake: Any) -> None:
    iceberg = lake.catalog._iceberg
    term, last = iceberg.expressions.Expressions.bucket("id", 4), iceberg.NullOrder.NULLS_LAST
    note = iceberg.expressions.Expressions.ref("note")
    lake.java.replaceSortOrder().desc(term, last).asc(note, last).commit()
    table = lake.catalog.load(lake.name)
    writers = Writers("w", 1)
    rows = [{"id": number, "note": str(number % 3)} for number in range(40)]
    writers.write("k", table, table.properties, pa.Table.from_pylist(rows, schema_to_pyarrow(table.schema)))
    append(
        lake.catalog,
        CommitTarget(lake.name),
        Mark("p", "s", 1),
        {1: [msgspec.json.decode(file, type=ContentFile) for file in writers.close()["k"].files]},
    )
    [task] = list(lake.java.newScan().planFiles().iterator())
    assert task.file().sortOrderId() == lake.java.sortOrder().orderId() == table.sort_order.order_id == 1
    bucket = parse_transform("bucket[4]").transform(LongType())
    found = pq.read_table(str(task.file().location()).removeprefix("file:"), partitioning=None).to_pylist()
    assert found == sorted(rows, key=lambda row: (-bucket(row["id"]), row["note"]))


def test_creating_twice_gives_the_first_table(lake: Any, schema_json: str) -> None:
    assert lake.catalog.create(lake.name, fields(("other", "int"))) == lake.table


def test_creators_side_by_side_get_one_table(lake: Any, schema_json: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        uuids = list(pool.map(lambda _: lake.catalog.create("db.one", schema_json).uuid, range(4)))
    assert len(set(uuids)) == 1


def test_namespaces_are_created_level_by_level(lake: Any, schema_json: str) -> None:
    assert lake.catalog.create("a.b.c.events", schema_json).identifier == "a.b.c.events"
    assert lake.catalog.load("a.b.c.events") is not None


def test_every_transform_partitions(lake: Any) -> None:
    columns = [("id", "long"), ("at", "timestamptz"), ("name", "string"), ("day", "date"), ("gone", "int")]
    schema = fields(*columns, ("born", "timestamp"), ("met", "timestamp"))
    wanted = [("id", "bucket[16]"), ("at", "hour"), ("name", "truncate[4]"), ("day", "month"), ("gone", "void")]
    wanted += [("name", "identity"), ("born", "year"), ("met", "day")]
    table = lake.catalog.create("db.parted", schema, wanted)
    names = {column.field_id: column.name for column in table.schema.fields}
    assert [(names[one.source_id], str(one.transform)) for one in table.spec.fields] == wanted


def test_a_partition_that_does_not_fit_is_an_error_of_the_tree(lake: Any, schema_json: str) -> None:
    with pytest.raises(CommitError, match="day"):
        lake.catalog.create("db.bad", schema_json, [("note", "day")])
    assert lake.catalog.load("db.bad") is None


def test_a_type_of_a_later_format_is_refused_with_the_way_out(lake: Any) -> None:
    with pytest.raises(SchemaConflictError, match="variant is not supported until v3") as refused:
        lake.catalog.create("db.late", fields(("any", "variant")))
    assert "format-version" in refused.value.hint
    assert lake.catalog.create("db.late", fields(("any", "variant")), properties={"format-version": "3"})


def test_a_location_is_kept(lake: Any, schema_json: str, tmp_path: Path) -> None:
    if lake.catalog.properties["type"] == "hadoop":
        pytest.skip("a Hadoop catalog has no custom locations")
    table = lake.catalog.create("db.placed", schema_json, location=str(tmp_path / "elsewhere") + "/")
    assert table.location == str(tmp_path / "elsewhere")


@pytest.mark.parametrize("identifier", ["", "db.", ".events", "db..events"])
def test_a_name_with_an_empty_part_names_no_table(lake: Any, identifier: str) -> None:
    with pytest.raises(NoTargetError, match="is not a table identifier"):
        lake.catalog.load(identifier)


def test_columns_are_added_at_any_depth(lake: Any) -> None:
    item = {"type": "struct", "fields": [{"id": 1, "name": "sku", "required": False, "type": "string"}]}
    items = {"type": "list", "element-id": 2, "element": item, "element-required": False}
    lake.catalog.evolve(lake.name, Evolution([NewColumn((), "items", items), NewColumn((), "n", "long")]))
    table = lake.catalog.evolve(lake.name, Evolution([NewColumn(("items", "element"), "price", "double")]))
    assert str(table.schema.find_type("items.element.price")) == "double"
    assert str(table.schema.find_type("n")) == "long"
    assert len(table.schema.field_ids) == len(set(table.schema.field_ids))


def test_new_columns_have_defaults_in_format_version_3(lake: Any) -> None:
    columns = [{"name": "id", "type": "long"}, {"name": "total", "type": "decimal(9,2) default 7.5", "required": True}]
    schema = schema_from_columns(columns).model_dump_json()
    with pytest.raises(SchemaConflictError, match="default"):
        lake.catalog.create("db.defaults", schema)
    lake.catalog.create("db.defaults", schema, properties={"format-version": "3"})
    inner = {"type": "struct", "fields": [{"id": 1, "name": "x", "required": False, "type": "int", "write-default": 3}]}
    new = [NewColumn((), "day", "date", "", "2024-02-03"), NewColumn((), "in", inner)]
    fields = lake.catalog.evolve("db.defaults", Evolution(new)).schema.fields
    assert [field.write_default for field in fields[:3]] == [None, Decimal("7.50"), date(2024, 2, 3)]
    assert fields[2].initial_default == date(2024, 2, 3)
    assert fields[3].field_type.fields[0].write_default == 3


def test_a_name_with_a_dot_is_one_column(lake: Any) -> None:
    table = lake.catalog.evolve(lake.name, Evolution([NewColumn((), "a.b", "long")]))
    again = lake.catalog.evolve(
        lake.name, Evolution([NewColumn((), "a.b", "long"), NewColumn((), "c", "long", "what it means")])
    )
    assert [column.name for column in table.schema.fields] == ["id", "note", "a.b"]
    assert [(column.name, column.doc) for column in again.schema.fields][2:] == [("a.b", None), ("c", "what it means")]


def test_columns_that_another_writer_added_are_skipped(lake: Any) -> None:
    first = lake.catalog.evolve(lake.name, Evolution([NewColumn((), "a", "long")]))
    again = lake.catalog.evolve(lake.name, Evolution([NewColumn((), "a", "string"), NewColumn((), "b", "string")]))
    assert again.schema.find_field("a") == first.schema.find_field("a")
    assert str(again.schema.find_type("b")) == "string"


def test_columns_are_widened_and_never_made_narrower(lake: Any) -> None:
    lake.catalog.evolve(
        lake.name,
        Evolution([NewColumn((), "n", "int"), NewColumn((), "d", "decimal(9, 2)"), NewColumn((), "s", "string")]),
    )
    wider = Evolution(widen=[("n", "long"), ("d", "decimal(12, 2)"), ("s", "long"), ("gone", "long")])
    table = lake.catalog.evolve(lake.name, wider)
    again = lake.catalog.evolve(lake.name, Evolution(widen=[("n", "int"), ("d", "decimal(10, 2)")]))
    assert [str(table.schema.find_type(name)) for name in "nds"] == ["long", "decimal(12, 2)", "string"]
    assert again.schema_json == table.schema_json


def test_columns_are_widened_at_any_depth(lake: Any) -> None:
    inner = {"type": "struct", "fields": [{"id": 9, "name": "n", "required": False, "type": "int"}]}
    many = {"type": "list", "element-id": 7, "element-required": False, "element": inner}
    keyed = {"type": "map", "key-id": 5, "key": "int", "value-id": 6, "value-required": False, "value": "float"}
    lake.catalog.evolve(lake.name, Evolution([NewColumn((), "l", many), NewColumn((), "m", keyed)]))
    table = lake.catalog.evolve(lake.name, Evolution(widen=[("l.element.n", "long"), ("m.value", "double")]))
    found = [str(table.schema.find_type(name)) for name in ("l.element.n", "m.value", "m.key")]
    assert found == ["long", "double", "int"]


def test_evolutions_side_by_side_all_arrive(lake: Any) -> None:
    def add(number: int) -> None:
        lake.catalog.evolve(
            lake.name, Evolution([NewColumn((), "shared", "long"), NewColumn((), f"c{number}", "long")])
        )

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(4)))
    names = [column.name for column in lake.catalog.load(lake.name).schema.fields]
    assert sorted(names) == ["c0", "c1", "c2", "c3", "id", "note", "shared"]


def test_the_embedded_catalog_opens_in_pyiceberg(spark: SparkSession, tmp_path: Path, lake: Any) -> None:
    if lake.catalog.name != "lakehouse":
        pytest.skip("only the embedded catalog")
    append(lake.catalog, CommitTarget(lake.name), Mark("shop", "s", 1), {1: [lake.file("a", [1, 2])]})
    theirs = SqlCatalog("lakehouse", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    assert theirs.list_tables("db") == [("db", "events")]
    assert theirs.load_table("db.events").scan().to_arrow().to_pylist() == [
        {"id": 1, "note": "a"},
        {"id": 2, "note": "a"},
    ]
    theirs.close()


def test_two_catalogs_of_one_process_are_two(spark: SparkSession, tmp_path: Path, schema_json: str) -> None:
    one, two = (Catalog(session.start(), embedded(tmp_path / name)) for name in ("one", "two"))
    one.create("db.events", schema_json)
    assert two.load("db.events") is None


def test_without_properties_the_lakehouse_is_in_the_working_folder(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schema_json: str
) -> None:
    monkeypatch.chdir(tmp_path)
    table = Catalog(session.start(), {}).create("db.events", schema_json)
    assert (tmp_path / "lakehouse" / "catalog.db").is_file()
    assert table.location == str(tmp_path / "lakehouse" / "db" / "events")


@pytest.mark.parametrize(
    ("properties", "kind"),
    [
        ({"type": "rest", "uri": "http://127.0.0.1:9", "rest.client.max-retries": "1"}, SinkUnavailableError),
        ({"type": "nonsense"}, SetupError),
        ({"catalog-impl": "com.example.Missing"}, CalveError),
        ({"type": "jdbc", "uri": "jdbc:nodb:x", "warehouse": "/tmp"}, CalveError),
    ],
)
def test_a_catalog_that_cannot_be_opened_says_so_in_one_line(
    spark: SparkSession, properties: dict[str, str], kind: type[CalveError]
) -> None:
    with pytest.raises(kind) as failed:
        Catalog(session.start(), properties).load("db.events")
    assert "\n" not in str(failed.value)
    assert len(failed.value.message) < 400
    assert not isinstance(failed.value, EngineError)
