"""`calve tables`, `show` and `sql` read tables without a JVM; deletes are tested with random changes in tests/commit."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from .conftest import Shell

ORDERS = [
    {
        "id": 1,
        "city": "Bern",
        "total": Decimal("9.50"),
        "at": datetime(2026, 1, 31, 12, tzinfo=UTC),
        "day": date(2026, 1, 31),
    },
    {"id": 2, "city": None, "total": Decimal("3.25"), "at": None, "day": None},
    {"id": 3, "city": "Z\x1b[31m", "total": None, "at": None, "day": None},
]
COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("city", pa.string()),
        ("total", pa.decimal128(9, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
    ]
)


@pytest.fixture
def lake(shell: Shell) -> Shell:
    """An embedded catalog with shop.orders, twice three rows, and an empty table."""
    folder = shell.folder / "lakehouse"
    folder.mkdir()
    catalog = SqlCatalog("lakehouse", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.orders", COLUMNS)
    table.append(pa.Table.from_pylist(ORDERS, COLUMNS))
    table.append(pa.Table.from_pylist([{**row, "id": row["id"] + 3} for row in ORDERS], COLUMNS))
    catalog.create_table("shop.empty", pa.schema([("key", pa.binary(16)), ("tags", pa.list_(pa.string()))]))
    return shell


def test_tables_are_listed_with_rows_files_and_places(lake: Shell) -> None:
    result = lake("tables")
    assert result.exit_code == 0, result.output
    heading, empty, orders = result.stdout.splitlines()
    assert heading.split() == ["table", "columns", "rows", "files", "size", "last", "commit", "location"]
    assert empty.split()[:4] == ["shop.empty", "2", "0", "0"]
    assert orders.split()[:4] == ["shop.orders", "5", "6", "2"]
    assert orders.endswith("lakehouse/shop/orders")
    (_, table) = json.loads(lake("tables", "--json").stdout)["tables"]
    assert table["columns"][2] == {"name": "total", "type": "decimal(9, 2)"}


def test_a_table_that_cannot_be_opened_does_not_hide_the_others(lake: Shell) -> None:
    for file in (lake.folder / "lakehouse/shop/empty/metadata").glob("*.metadata.json"):
        file.unlink()
    result = lake("tables")
    assert result.exit_code == 1
    assert [line.split()[:2] for line in result.stdout.splitlines()[1:]] == [["shop.empty", "?"], ["shop.orders", "5"]]
    assert "shop.empty" in result.stderr
    assert json.loads(lake("tables", "--json").stdout)["tables"][0].keys() == {"table", "error"}


def test_rows_are_shown_with_chosen_columns_conditions_and_limit(lake: Shell) -> None:
    result = lake("show", "shop.orders", "--columns", "id,total", "--where", "total > 5 OR id = 2")
    assert result.exit_code == 0, result.output
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["id", "total"],
        ["4", "9.50"],
        ["1", "9.50"],
        ["2", "3.25"],
    ]
    assert result.stderr == "(3 rows)\n"
    assert len(lake("show", "shop.orders", "--limit", "2").stdout.splitlines()) == 3
    assert "\x1b" not in lake("show", "shop.orders").stdout
    assert lake("show", "shop.empty").stdout.split() == ["key", "tags"]


def test_rows_as_json_are_one_in_a_line(lake: Shell) -> None:
    rows = list(map(json.loads, lake("show", "shop.orders", "--json", "--limit", "1").stdout.splitlines()))
    assert rows == [{"id": 4, "city": "Bern", "total": "9.50", "at": "2026-01-31T12:00:00Z", "day": "2026-01-31"}]


def test_sql_joins_and_counts_tables_by_their_names(lake: Shell) -> None:
    query = (
        "SELECT a.id, count(*) AS n FROM shop.orders a JOIN shop.orders b ON b.id >= a.id GROUP BY 1 ORDER BY 1 LIMIT 1"
    )
    assert json.loads(lake("sql", query, "--json").stdout) == {"id": 1, "n": 6}
    assert json.loads(lake("sql", 'SELECT max("id") AS m FROM "shop"."orders"', "--json").stdout) == {"m": 6}
    for join in ("JOIN shop.orders o USING (id)", "NATURAL JOIN (SELECT id FROM shop.orders) AS o"):
        count = lake("sql", f"WITH b AS (FROM shop.orders) SELECT count(*) AS n FROM b {join}", "--json")
        assert count.exit_code == 0, count.output
        assert json.loads(count.stdout) == {"n": 6}
    assert lake("sql", "DESCRIBE shop.orders").stdout.split()[6] == "id"
    assert lake("sql", "SELECT 1 AS one").stdout.split() == ["one", "1"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("show", "shop.order"), "There is no table shop.order in the catalog .* Did you mean shop.orders\\?"),
        (("show", "shop.orders", "--where", "cty = 1"), 'column "cty" not found .*'),
        (("sql", "SELECT * FROM shop.nothing"), "There is no table shop.nothing"),
        (("sql", "SELECT * FROM orders"), "orders does not exist.*Name the table as shop.orders"),
        (("sql", 'SELECT * FROM "shop.orders"'), 'does not exist.*Name the table as "shop"."orders"'),
        (("sql", "SELECT * FROM n"), r"n does not exist\. (?!Did you mean).*calve tables"),
        (("sql", "WITH n AS (SELECT 1 AS a) SELECT uper(a) FROM n"), "uper does not exist.*Did you mean"),
        (("sql", "SELEC 1"), "syntax error"),
        (("sql", "SELECT 1; SELECT 2"), "only one SELECT is run"),
        (("sql", "DROP TABLE shop.orders"), "only one SELECT is run"),
        (("sql", "UPDATE shop.orders SET id = 1"), "only one SELECT is run"),
        (("sql", "COPY (FROM shop.orders) TO 'out.csv'"), "only one SELECT is run"),
        (("show", "shop.orders", "--where", "true; FROM rows"), "only one SELECT is run"),
        (
            ("show", "a.b", "--catalog", "type=hadoop", "--catalog", "warehouse=/x"),
            "cannot read a catalog of type hadoop",
        ),
    ],
)
def test_what_cannot_be_read_is_one_sentence(lake: Shell, arguments: tuple[str, ...], said: str) -> None:
    result = lake(*arguments)
    assert result.exit_code in (1, 2), result.output
    assert len(result.stderr.splitlines()) == 1
    assert re.search(said, result.stderr), result.stderr


def test_without_a_catalog_it_says_where_to_go(shell: Shell) -> None:
    result = shell("show", "shop.orders")
    assert result.exit_code == 1
    assert "There is no catalog" in result.stderr
    assert "--pipelines PATH" in result.stderr
    said = shell("tables").stderr
    assert said.startswith("No tables. There is no catalog ")
    assert said.endswith("lakehouse/catalog.db\n")


def test_the_catalog_may_come_from_a_configuration(lake: Shell) -> None:
    catalog = {"name": "lakehouse", "type": "jdbc", "uri": f"jdbc:sqlite:{lake.folder}/lakehouse/catalog.db"}
    sink = {
        "iceberg": {"table_identifier": "shop.orders", "catalog": {**catalog, "warehouse": f"{lake.folder}/lakehouse"}}
    }
    lake.write("elsewhere/orders.yaml", json.dumps({"orders": {"source": {"http": {}}, "sink": [sink]}}))
    assert len(lake("show", "shop.orders", "--pipelines", "elsewhere/orders.yaml", "--json").stdout.splitlines()) == 6


def test_nothing_of_spark_is_loaded(lake: Shell) -> None:
    program = "import sys; from calve.cli.main import calve; calve(['show', 'shop.orders'], standalone_mode=False); "
    program += "print([name for name in sys.modules if name.split('.')[0] in ('pyspark', 'py4j')])"
    done = subprocess.run([sys.executable, "-c", program], cwd=lake.folder, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr
