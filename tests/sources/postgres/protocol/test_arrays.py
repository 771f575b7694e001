"""Arrays of every delimiter and depth keep their values, in the load and in the stream."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from calve.sources.postgres.protocol.arrays import NotFlatError, nested
from calve.sources.tables import Tables
from services.postgres import Postgres
from sources.mysql.follow import Follower, postgres_settings, stopped_in

COLUMNS = {
    "boxes": ("framed[]", "array['(1,1),(0,0)', '(2,2),(1,1)']::framed[]", "{(1,1),(0,0);(2,2),(1,1)}"),
    "plain_boxes": ("box[]", "array['(1,1),(0,0)']::box[]", "{(1,1),(0,0)}"),
    "flat": ("int[]", "'{1,NULL}'", [1, None]),
    "declared": ("int[][]", "'{1,2}'", [1, 2]),
    "matrix": ("int[]", "'{{1,2},{NULL,4}}'", [[1, 2], [None, 4]]),
    "cube": ("text[]", "array[[['a,b'], [E'q\"\\\\ {}']], [['NULL'], [null]]]", [[["a,b"], ['q"\\ {}']], [["NULL"], [None]]]),
    "empty": ("int[][]", "'{}'", []),
    "mixed": ("int[]", "case n when 1 then '{1}'::int[] else '{{1},{2}}' end", None),
    "shifted": ("int[]", "'[0:1]={1,2}'", "[0:1]={1,2}"),
    "dates": ("date[]", "'{{2024-01-01},{0044-03-15 BC}}'", None),
}  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres() as running:
        yield running


@pytest.mark.services
def test_arrays_keep_their_values_whatever_their_delimiter_and_depth(server: Postgres, tmp_path: Path) -> None:
    fields = ", ".join(f"{name} {kind}" for name, (kind, _, _) in COLUMNS.items())
    values = ", ".join(value for _, value, _ in COLUMNS.values())
    server.run(
        "create domain framed as box",
        f"create table t (id int primary key, {fields})",
        f"insert into t select n, {values} from generate_series(1, 2) n",
    )
    follower = Follower(postgres_settings(server, "postgres", tables=Tables(include=["public.t"])), tmp_path)
    follower.read()
    server.run("insert into t select id + 2, " + ", ".join(COLUMNS) + " from t", "insert into t (id) values (9)")
    follower.read()
    assert stopped_in(tmp_path) == {}
    rows = follower.rows["t"]
    assert len(rows) == 5
    for key in "1234":
        for name, (_, _, expected) in COLUMNS.items():
            if expected is not None:
                assert rows[key][name] == expected, name
    assert [rows[key]["mixed"] for key in "1234"] == ["{1}", "{{1},{2}}"] * 2
    assert set(rows["9"].values()) == {9, None}


@pytest.mark.parametrize("text", ["{1}", "{{{1}}}", "[0:1]={{1},{2}}", "{{1},{2}", "x"])
def test_an_array_of_another_depth_is_no_list(text: str) -> None:
    with pytest.raises(NotFlatError):
        nested(text, 2)
