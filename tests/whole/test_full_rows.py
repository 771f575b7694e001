"""Tables without a key of change streams and of Iceberg's changes: the rows of the source, each as often as there."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from event.envelope.debezium import envelope
from kit.running import Calve

pytestmark = pytest.mark.spark

LOG = """
log:
  source:
    file: {path: "in/*.ndjson", codec: {debezium: {}}}
  sink:
    - iceberg:
        table_identifier: shop.${getMetadata("debezium_source_table")}
        auto_create: true
        schema_evolution: true
        identifier_columns: full_row
        column_types: {n: long, price: "decimal(12,2)", at: timestamptz, ratio: double}
        max_batch_bytes: 4kb
"""
COPY = """
copy:
  source:
    iceberg: {tables: [{table_name: shop.log}]}
  sink:
    - iceberg:
        table_identifier: copy.log
        operation: ${getMetadata("iceberg_operation")}
        auto_create: true
        schema_evolution: true
        identifier_columns: full_row
        table_properties: {format-version: "3"}
"""
SPELLED: dict[str, list[tuple[Any, list[Any]]]] = {
    "n": [(None, [None]), (1, [1]), (2, [2, "2"])],
    "price": [(None, [None]), (Decimal("1.50"), ["1.50", "1.5", 1.5]), (Decimal("-0.10"), ["-0.1", "-0.10"])],
    "at": [
        (None, [None]),
        (
            dt.datetime(2025, 12, 31, 22, tzinfo=dt.UTC),
            ["2026-01-01T00:00:00+02:00", "2025-12-31T22:00:00Z", "2025-12-31T22:00:00.000000Z"],
        ),
    ],
    "ratio": [(None, [None]), ("0.0", [0.0]), ("-0.0", [-0.0]), ("0.1", [0.1, 1e-1]), ("nan", ["NaN"])],
    "inner": [(None, [None]), ((1, "x"), [{"a": 1, "b": "x"}, {"b": "x", "a": 1}]), ((None, "1"), [{"b": "1"}])],
    "list": [(None, [None]), ((), [[]]), ((1.5, None), [[1.5, None]])],
}
"""Values, and how a stream may write each; NULL may be left out."""
FULL = tuple(values[1][0] for values in SPELLED.values())


def written(row: tuple[Any, ...], chosen: random.Random) -> dict[str, Any]:
    spelled = {
        name: chosen.choice(next(texts for known, texts in SPELLED[name] if known == value))
        for name, value in zip(SPELLED, row, strict=False)
    }
    event = {name: value for name, value in spelled.items() if value is not None or chosen.random() < 0.5}
    return event | ({"later": row[6]} if len(row) > 6 and row[6] is not None else {})


def changes(rows: list[tuple[Any, ...]], chosen: random.Random, count: int, has_later: bool) -> list[dict[str, Any]]:
    """Return random changes of a multiset of rows, and apply them to it."""

    def fresh() -> tuple[Any, ...]:
        row = tuple(chosen.choice(values)[0] for values in SPELLED.values())
        return (*row, chosen.choice((None, "l"))) if has_later else row

    lines = []
    for _ in range(count):
        word = chosen.choice("ccudd") if rows else "c"
        before = rows.pop(chosen.randrange(len(rows))) if word != "c" else None
        after = chosen.choice([fresh(), *rows[:3]]) if word != "d" else None
        rows += [after] if after else []
        images = (row and written(row, chosen) for row in (before, after))
        lines.append(envelope(word, *images, table="log"))
    return lines


def send(job: Calve, name: str, lines: list[dict[str, Any]]) -> None:
    (job.folder / "in").mkdir(exist_ok=True)
    (job.folder / "in" / f"{name}.ndjson").write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def in_table(job: Calve, table: str) -> Counter[tuple[Any, ...]]:
    rows = job.rows(table).to_pylist()
    return Counter(
        (
            *(row["n"], row["price"], row["at"], row["ratio"] if row["ratio"] is None else str(row["ratio"])),
            row["inner"] and (row["inner"]["a"], row["inner"]["b"]),
            None if row["list"] is None else tuple(row["list"]),
            row.get("later"),
        )
        for row in rows
    )


def test_a_table_without_a_key_has_the_rows_of_the_stream_and_so_has_its_copy(calve: Callable[..., Calve]) -> None:
    job, chosen = calve(LOG), random.Random(7)
    rows: list[tuple[Any, ...]] = [FULL, FULL]
    send(job, "0", [envelope("c", None, written(FULL, chosen), table="log") for _ in rows])
    send(job, "1", changes(rows, chosen, 60, has_later=False))
    assert job.once() == 0, job.said()[-3000:]
    for number, death in enumerate(("", "commit.after-swap"), 2):
        job.configure(LOG + COPY)
        send(job, f"{number}", changes(rows, chosen, 60, has_later=True))
        if death:
            job.killed_at(death)
        else:
            assert job.once() == 0, job.said()[-3000:]
        assert [job.once(), job.once()] == [0, 0], job.said()[-3000:]
        expected = Counter((*row, None)[:7] for row in rows)
        assert in_table(job, "shop.log") == expected
        assert in_table(job, "copy.log") == expected
    assert "are not there" not in job.said()
    assert not [*job.dead_letters("log"), *job.dead_letters("copy")]


def test_a_rejected_half_of_an_update_is_sent_again_alone_and_changes_without_the_old_row_are_dead_letters(
    calve: Callable[..., Calve],
) -> None:
    job = calve(LOG + "        on_type_mismatch: dlq\n")
    old, new, gone = {"n": 1}, {"n": "x"}, {"n": 9}
    lines = [envelope("c", None, row, table="log") for row in (old, old, {"n": 2})]
    lines += [envelope("u", old, new, table="log"), envelope("u", None, old, table="log"), envelope("d", table="log")]
    send(job, "1", [*lines, envelope("d", gone, table="log")])
    assert job.once() == 0, job.said()[-3000:]
    assert [row["n"] for row in job.rows("shop.log").to_pylist()] == [1, 2]
    letters = job.dead_letters("log")
    assert {(letter["code"], letter["metadata"].get("operation")) for letter in letters} == {
        ("NOT_COERCIBLE", "update_after"),
        ("NO_KEY", None),
        ("NO_KEY", "update"),
    }
    assert "1 rows were to be deleted and are not there" in job.said()
    job.configure(LOG + '        on_type_mismatch: "null"\n')
    assert job.call("dlq", "replay", "pipelines.yaml", "--code", "NOT_COERCIBLE").exit_code == 0
    assert Counter(row["n"] for row in job.rows("shop.log").to_pylist()) == Counter([1, 2, None])
