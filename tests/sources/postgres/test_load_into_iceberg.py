"""Loads by the command: texts as they are, each key once, and tables that nobody can create."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kit.running import Calve
from services.postgres import Postgres
from sources.postgres.test_iceberg import once, rows, yaml

pytestmark = [pytest.mark.services, pytest.mark.spark]


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres() as running:
        yield running


def test_texts_of_a_load_are_taken_as_they_are_also_where_a_reader_of_files_would_not(
    server: Postgres, calve: Callable[..., Calve]
) -> None:
    database = server.create_database("texts")
    texts = [
        "\ufeffa",
        "",
        " ",
        "\t",
        "NULL",
        "\\N",
        "\\.",
        '"',
        '""',
        ",",
        "a,b",
        "\r",
        "a\nb",
        "\r\n",
        "'",
        "é\ufeff",
    ]
    server.run(
        "create table one (id text primary key)", "create table two (id text primary key, t text)", database=database
    )
    for text in texts:
        value = "'" + text.replace("'", "''") + "'"
        server.run(f"insert into one values ({value})", f"insert into two values ({value}, {value})", database=database)
    server.run("insert into two values ('null', null)", database=database)
    running = calve(yaml(server, database))
    once(running)
    assert rows(running, "shop.one") == {text: {"id": text} for text in texts}
    two = {text: {"id": text, "t": text} for text in texts}
    assert rows(running, "shop.two") == {**two, "null": {"id": "null", "t": None}}


@pytest.mark.parametrize("target", ['shop.${getMetadata(\\"table_name\\")}', "shop.same"])
def test_a_load_by_several_tasks_has_each_key_once_also_of_tables_with_a_common_target(
    server: Postgres, calve: Callable[..., Calve], target: str
) -> None:
    """Two tables of 16 MB with the same keys: each is read by a task of its own."""
    database = server.create_database("tasks_" + "".join(filter(str.isalpha, target)).lower()[-9:])
    fill = "insert into {} select n, repeat('{}', 1000) from generate_series(1, 16000) n"
    for name in ("a", "b"):
        server.run(f"create table {name} (id int primary key, pad text)", fill.format(name, name), database=database)
    is_merged = target == "shop.same"
    running = calve(
        yaml(server, database, "merge_tables: true" if is_merged else "").replace(
            'shop.${getMetadata(\\"table_name\\")}', target
        )
    )
    once(running)
    spark = running.shared_spark()
    tables = {name: spark.table(f"lakehouse.{name}") for name in running.tables("shop")}
    assert sum(spark.table(f"lakehouse.{name}.data_files").count() for name in tables) == 2
    rows_of = [row for table in tables.values() for row in table.selectExpr("left(pad, 1)", "id").collect()]
    assert sorted(map(tuple, rows_of)) == [(pad, number) for pad in "ab" for number in range(1, 16001)]
    if is_merged:
        [table] = tables.values()
        assert {tuple(row) for row in table.selectExpr("table_name", "left(pad, 1)").distinct().collect()} == {
            ("a", "a"),
            ("b", "b"),
        }


def test_a_table_with_a_name_that_no_target_can_have_does_not_stop_the_others(
    server: Postgres, calve: Callable[..., Calve]
) -> None:
    database = server.create_database("names")
    for name in ("fine", "a/b", "empty"):
        server.run(f'create table "{name}" (id int primary key)', database=database)
    server.run("insert into fine values (1), (2)", 'insert into "a/b" values (3)', database=database)
    running = calve(yaml(server, database))
    once(running)
    assert sorted(running.tables("shop")) == ["shop.empty", "shop.fine"], "a table without rows is there, too"
    assert set(rows(running, "shop.fine")) == {1, 2}
    assert [letter["code"] for letter in running.dead_letters("shop")] == ["BAD_TABLE_NAME"]


def test_arrays_of_arrays_are_lists_of_lists_in_the_table_and_mixed_ones_texts(
    server: Postgres, calve: Callable[..., Calve]
) -> None:
    database = server.create_database("arrays")
    server.run(
        "create table arrays (id int primary key, matrix numeric(5,1)[], mixed int[], made int[][])",
        "insert into arrays values (1, '{{1.5,NULL},{3,4}}', '{1}'), (2, '{}', '{{1}}')",
        database=database,
    )
    running = calve(yaml(server, database))
    once(running)
    server.run("insert into arrays values (3, '{{-2}}', '[0:0]={7}', '{{1,2}}')", database=database)
    assert "NULL" not in once(running)
    one, two, three = (rows(running, "shop.arrays")[number] for number in (1, 2, 3))
    tenths = [[None if each is None else str(each) for each in line] for line in one["matrix"]]
    assert (tenths, one["mixed"], one["made"]) == ([["1.5", None], ["3.0", "4.0"]], "{1}", None)
    assert (two["matrix"], two["mixed"]) == ([], "{{1}}")
    assert ([[str(each) for each in line] for line in three["matrix"]], three["mixed"]) == ([["-2.0"]], "[0:0]={7}")
    assert three["made"] == [[1, 2]]
