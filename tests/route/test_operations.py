from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calve.event import duckdb_session
from calve.event.columns import JSON
from calve.event.operation import Operation, operation_of, operation_sql
from calve.expression import compile_format
from calve.route.by_table import ByTable, TablePattern
from calve.route.route import Router
from calve.route.sink_route import SinkRoute

TABLES = ("db.a", "db.b", "db.c", "not a table", "")
WORDS = ("c", "d", "u", "what", None)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), with_default=st.booleans())
def test_the_operation_of_an_event_is_that_of_its_table(seed: int, with_default: bool) -> None:
    rnd = random.Random(seed)
    names, first, second = ([rnd.choice(choices) for _ in range(30)] for choices in (TABLES, WORDS, WORDS))
    known = ("table", "one", "two")
    rows = pa.table(
        {JSON: ["{}"] * 30, "table": names, "one": pa.array(first, pa.string()), "two": pa.array(second, pa.string())}
    )
    one, two = (compile_format(f'${{getMetadata("{name}")}}', known) for name in ("one", "two"))
    operation = ByTable(two if with_default else None, ((TablePattern("db.a"), one), (TablePattern("db.[ab]"), two)))
    routed = Router([SinkRoute(compile_format('${getMetadata("table")}', known), (), operation)]).route(rows)
    rejected = (
        dict(zip(*(routed.rejects[0][name].to_pylist() for name in ("row", "code")), strict=True))
        if routed.rejects
        else {}
    )
    tables = {at: name for _, name, rows in routed.parts for at in (range(30) if rows is None else rows.to_pylist())}
    expected = {"c": Operation.INSERT, "d": Operation.DELETE, "u": Operation.UPDATE, None: Operation.INSERT}
    for at, (name, *words) in enumerate(zip(names, first, second, strict=True)):
        word = words[0] if name == "db.a" else words[1] if name == "db.b" or with_default else None
        if word == "what":
            assert (rejected[at], at in tables) == ("UNKNOWN_OPERATION", False)
        elif not name.startswith("db."):
            assert rejected[at] in ("BAD_TABLE_NAME", "NO_FIELD")
        else:
            assert (tables[at], routed.operations[0][at].as_py()) == (name, expected[word])


@pytest.mark.parametrize("of_full_rows", [False, True])
def test_the_images_of_an_update_are_a_delete_and_an_insert_of_rows_without_a_key(of_full_rows: bool) -> None:
    words = [None, "", "INSERT", "r", "update", "U", "delete", "d", "UPDATE_BEFORE", "update_after", "merge"]
    sql = f"select {operation_sql('word', of_full_rows)} as operation from words"
    numbers = duckdb_session.run(sql, words=pa.table({"word": words}))["operation"].to_pylist()
    assert numbers == [operation_of(word, of_full_rows) for word in words]
    images = [Operation.DELETE, Operation.INSERT] if of_full_rows else [Operation.SKIPPED, Operation.UPDATE]
    assert numbers[-3:] == [*images, None]
