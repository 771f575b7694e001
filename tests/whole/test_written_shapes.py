"""Only events that are written decide the names, types and columns of a table, in any order and in any tasks."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from calve.event.typed_schema import declaration
from calve.sources.file.rows import FileBatches, row_numbers
from calve.sources.source import Split
from kit.examples import examples
from kit.lake import Lake

GOOD = [{"id": number, "v": number} for number in range(6)]
BY_KEY = {"identifier_columns": ["id"], "upsert": True}
WIDE = {f"junk{number}": 1 for number in range(1_100)}
CASES: dict[str, tuple[dict[str, Any], list[dict[str, Any]], str]] = {
    "two names in one event": ({}, [{"ID": 0, "id": 0, "junk": 1}], "AMBIGUOUS_FIELD"),
    "two names inside a struct": ({}, [{"id": 0, "junk": {"a": 1, "A": 2}}], "AMBIGUOUS_FIELD"),
    "a reserved name": ({}, [{"id": 0, "_file": 1, "junk": 1}], "AMBIGUOUS_FIELD"),
    "too many columns": ({}, [{"id": 1, **WIDE}], "TOO_MANY_COLUMNS"),
    "half a surrogate pair": ({}, [{"id": "\ud800", "v": "x", "junk": 1}], "NOT_COERCIBLE"),
    "no key": (BY_KEY, [{"v": "x", "junk": 1}, {"id": None, "v": 1.5, "junk": 1}], "NO_KEY"),
    "a required field is missing": ({"identifier_columns": ["id"]}, [{"v": "x", "junk": 1}], "REQUIRED_MISSING"),
    "no type of its column": (
        {"column_types": {"v": "long"}, "on_type_mismatch": "dlq"}, [{"id": "x", "v": "x", "junk": 1}], "NOT_COERCIBLE",
    ),
    "no partition": ({"partition_by": ["day(v)"]}, [{"id": "x", "v": "x", "junk": 1}], "NOT_COERCIBLE"),
    "an unknown operation": (
        {**BY_KEY, "operation": "${/op}", "exclude_keys": ["op"]}, [{"id": "x", "v": "x", "junk": 1, "op": "z"}], "UNKNOWN_OPERATION",
    ),
    "the wrong case": ({}, [{"Id": 0, "junk": 1}], "AMBIGUOUS_FIELD"),
}  # fmt: skip


def _lake(folder: Path, options: dict[str, Any]) -> Lake:
    options = {"table_identifier": "ns.t", "auto_create": True, "schema_evolution": True, **options}
    return Lake(folder, options)


def _divided(rnd: random.Random, events: list[dict[str, Any]]) -> list[list[str]]:
    events = [*events]
    rnd.shuffle(events)
    tasks: list[list[str]] = [[] for _ in range(rnd.randint(1, 3))]
    for event in events:
        fields = list(event.items())
        rnd.shuffle(fields)
        rnd.choice(tasks).append(json.dumps(dict(fields)))
    return [task for task in tasks if task]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("is_known", [False, True], ids=["a new table", "a known table"])
def test_a_rejected_event_shapes_no_table(case: str, is_known: bool, tmp_path: Path) -> None:
    options, bad, code = CASES[case]
    for seed in range(examples(4)):
        rnd = random.Random(f"{case}{is_known}{seed}")
        lake = _lake(tmp_path / f"{seed}", options)
        first = [{"id": 100}] if is_known else []
        if first:
            lake.write([json.dumps(first[0])])
        lake.write(*_divided(rnd, GOOD + bad))
        columns = lake.schema()
        assert columns is not None
        assert columns == {"id": "long", "v": "timestamptz" if "partition_by" in options else "long"}
        assert len(lake.codes()) == len(bad)
        assert set(lake.codes()) <= {code, "NOT_COERCIBLE"}  # such an event may not fit its columns, either
        assert len(lake.rows["ns.t"]) == len(GOOD) + len(first)


@pytest.mark.parametrize("case", CASES)
def test_rejected_events_alone_make_no_table_and_have_their_own_reason(case: str, tmp_path: Path) -> None:
    options, bad, code = CASES[case]
    if case in ("the wrong case", "no partition"):
        return  # alone such an event can be written
    lake = _lake(tmp_path, options)
    lake.write([json.dumps(event) for event in bad])
    assert (lake.schema(), lake.codes()) == (None, [code] * len(bad))
    lake.write([json.dumps(event) for event in GOOD])
    assert (set(lake.schema() or {}), len(lake.rows["ns.t"])) == ({"id", "v"}, len(GOOD))


def test_a_delete_decides_nothing_but_its_key(tmp_path: Path) -> None:
    options = {"identifier_columns": ["id"], "operation": "${/op}", "exclude_keys": ["op"]}
    rows = [{"id": number, "v": 1, "op": "INSERT"} for number in range(4)]
    gone = [{"id": 1, "v": "x", "junk": 1, "op": "DELETE"}]
    for seed in range(4):
        lake = _lake(tmp_path / f"{seed}", options)
        lake.write(*_divided(random.Random(seed), rows + gone))
        assert (lake.schema(), lake.codes()) == ({"id": "long", "v": "long"}, [])


def test_dropped_and_unrouted_events_shape_no_table(tmp_path: Path) -> None:
    drop = [{"drop_events": {"drop_when": '/kind == "bad"'}}]
    lake = Lake(tmp_path, {"table_identifier": "ns.t", "auto_create": True, "schema_evolution": True}, drop)
    lake.write(['{"kind":"bad","junk":1,"v":"x"}', '{"kind":"a","v":1}'])
    assert (lake.schema(), lake.codes()) == ({"kind": "string", "v": "long"}, [])


def test_the_name_of_the_most_events_wins_in_any_order_and_in_any_tasks(tmp_path: Path) -> None:
    events = [{"id": 1, "a": 1}] * 3 + [{"ID": "x", "b": number} for number in range(2)]
    for seed in range(6):
        lake = _lake(tmp_path / f"{seed}", {})
        lake.write(*_divided(random.Random(seed), events))
        assert lake.schema() == {"id": "long", "a": "long"}
        assert (lake.codes(), len(lake.rows["ns.t"])) == (["AMBIGUOUS_FIELD"] * 2, 3)


class TypedRows:
    """Reads events as rows with types, as those of a Parquet file or a DataFrame."""

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        batch = pa.RecordBatch.from_pylist([json.loads(event) for event in split.body["events"]])
        rows = FileBatches("rows").typed(batch, row_numbers(1, len(batch)), declaration(batch.schema))
        yield from (part.drop_columns(["file_path", "file_row"]) for part in rows)


def test_typed_rows_whose_names_differ_by_case_only_are_rejected_like_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = [json.dumps(event) for event in ({"id": 1, "a": 1, "A": "x"}, {"id": 2, "a": 2, "A": None})]
    monkeypatch.setattr("kit.lake.Texts", TypedRows)
    lake = _lake(tmp_path, {})
    lake.write(events)
    assert (lake.schema(), lake.codes()) == ({"id": "long", "a": "long"}, ["AMBIGUOUS_FIELD"])
    assert lake.rows["ns.t"] == [{"id": 2, "a": 2}]
