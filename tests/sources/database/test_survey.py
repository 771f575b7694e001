"""Values that have no place in their type: a column that has one when it is loaded is a text, from then on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from calve.sources.database import reload
from calve.sources.database.epochs import Epochs
from calve.sources.database.settings import DatabaseSettings
from calve.state.local_folder import LocalFolder
from services.mysql import MYSQL, MySql
from services.postgres import Postgres
from sources.mysql.follow import Follower, postgres_settings, settings_of, stopped_in

pytestmark = pytest.mark.services


class Case(NamedTuple):
    """A server, and what its types cannot hold."""

    server: MySql | Postgres
    settings: DatabaseSettings
    columns: str
    fine: str
    odd: str
    kinds: dict[str, str]


MYSQL_COLUMNS = "good date, blank datetime, d date, at datetime(3), ts timestamp null, part date"
MYSQL_FINE = "'2024-02-29', null, '2024-02-29', '2024-02-29 01:02:03.004', '2024-02-29 01:02:03', '2024-02-28'"
MYSQL_ODD = "'0001-01-01', null, '0000-00-00', '0000-00-00', '0000-00-00', '2024-02-00'"
POSTGRES_COLUMNS = "good date, blank timestamp, d date, at timestamp, tz timestamptz, n numeric(9, 2), far date"
POSTGRES_FINE = (
    "'2024-02-29', null, '2024-02-29', '2024-02-29 01:02:03.004', '2024-02-29 01:02:03+00', 1.5, '2024-02-29'"
)
POSTGRES_ODD = "'9999-12-31', null, 'infinity', '-infinity', '0044-03-15 00:00:00+00 BC', 'NaN', '10000-01-01'"


@pytest.fixture(scope="module", params=["mysql", "postgres"])
def case(request: pytest.FixtureRequest) -> Iterator[Case]:
    with ExitStack() as stack:
        if request.param == "mysql":
            server = stack.enter_context(MySql(MYSQL))
            kinds = {"good": "date", "blank": "timestamp", **dict.fromkeys(("d", "at", "ts", "part"), "string")}
            yield Case(server, settings_of(server, "odd"), MYSQL_COLUMNS, MYSQL_FINE, MYSQL_ODD, kinds)
        else:
            database = stack.enter_context(Postgres())
            kinds = {"good": "date", "blank": "timestamp", **dict.fromkeys(("d", "at", "tz", "n", "far"), "string")}
            settings = postgres_settings(database, "odd")
            yield Case(database, settings, POSTGRES_COLUMNS, POSTGRES_FINE, POSTGRES_ODD, kinds)


def run(case: Case, *statements: str) -> None:
    case.server.run(*statements, database="odd")


def kinds_in(folder: Path) -> dict[str, str]:
    epochs = Epochs(LocalFolder(folder))
    epochs.load()
    [table] = [table for table in epochs.tables.values() if table.name == "t"]
    fields = json.loads(table.source_table().schema_json)["fields"]
    return {field["name"]: field["type"] for field in fields if field["name"] not in ("id", "later")}


def test_a_column_with_values_that_its_type_lacks_is_a_text_from_the_load_on_also_over_ddl_and_reloads(
    case: Case, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    case.server.create_database("odd")
    run(
        case,
        f"create table t (id int primary key, {case.columns})",
        f"insert into t values (1, {case.fine}), (2, {case.odd})",
    )
    follower = Follower(case.settings, tmp_path)
    loaded = dict(follower.read()["t"])
    assert kinds_in(tmp_path) == case.kinds
    assert "is written as text: it has values that its type lacks" in caplog.text
    run(case, "update t set id = id + 10", "alter table t add later int", f"insert into t values (3, {case.odd}, 1)")
    rows = follower.read()["t"]
    names = case.columns.replace(", 2", " 2").split(", ")
    for name in (each.split()[0] for each in names):
        assert rows["12"][name] == rows["3"][name] == loaded["2"][name]
        assert rows["11"][name] == loaded["1"][name]
    reload.request(LocalFolder(tmp_path), 0, ["odd.t" if isinstance(case.server, MySql) else "public.t"])
    run(case, "delete from t where id <> 11")
    assert set(follower.read()["t"]) == {"11"}
    assert kinds_in(tmp_path) == case.kinds
    assert stopped_in(tmp_path) == {}
