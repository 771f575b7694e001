"""Convert 131,072 events of 175 bytes and 10 fields, relative to DuckDB's optimistic `json_transform`, in CPU time.

Run: make bench-convert BENCH=ROUNDS. Interleaved; medians in milliseconds and as a ratio. All checks are on: strict
conversion, rejects, unknown fields.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

import pyarrow as pa
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

from calve.columns.infer import infer
from calve.convert.converter import Converter, ConvertOptions
from calve.event import duckdb_session
from calve.table.loaded import Table

ROWS = 131_072
COLUMNS: dict[str, tuple[iceberg.IcebergType, str]] = {
    "id": (iceberg.LongType(), "BIGINT"),
    "user_id": (iceberg.LongType(), "BIGINT"),
    "kind": (iceberg.StringType(), "VARCHAR"),
    "ts": (iceberg.TimestamptzType(), "TIMESTAMPTZ"),
    "amount": (iceberg.DoubleType(), "DOUBLE"),
    "country": (iceberg.StringType(), "VARCHAR"),
    "ok": (iceberg.BooleanType(), "BOOLEAN"),
    "url": (iceberg.StringType(), "VARCHAR"),
    "session": (iceberg.StringType(), "VARCHAR"),
    "n": (iceberg.LongType(), "BIGINT"),
}


def event(rnd: random.Random, number: int) -> dict[str, object]:
    day, clock = rnd.randrange(1, 28), (rnd.randrange(24), rnd.randrange(60), rnd.randrange(60), rnd.randrange(1000))
    return {
        "id": number,
        "user_id": rnd.randrange(10**9),
        "kind": rnd.choice(["click", "view", "buy", "login"]),
        "ts": f"2026-03-{day:02d}T{clock[0]:02d}:{clock[1]:02d}:{clock[2]:02d}.{clock[3]:03d}Z",
        "amount": round(rnd.random() * 1000, 2),
        "country": rnd.choice(["DE", "FR", "US"]),
        "ok": rnd.random() < 0.5,
        "url": f"/a/b/{rnd.randrange(10**6)}",
        "session": f"{rnd.getrandbits(64):016x}",
        "n": rnd.randrange(100),
    }


def events(spoil: Callable[[random.Random, dict[str, object]], object]) -> pa.Table:
    """Make events; `spoil` changes one in place, or gives a text to use instead."""
    rnd = random.Random(1)
    texts = []
    for number in range(ROWS):
        made = event(rnd, number)
        text = spoil(rnd, made)
        texts.append((text if isinstance(text, str) else json.dumps(made, separators=(",", ":"))).encode())
    return pa.table({"event": pa.array(texts, pa.binary())})


def lacking(rnd: random.Random, made: dict[str, object]) -> None:
    if rnd.random() < 1 / 3:
        for name in rnd.sample(["kind", "amount", "country", "ok", "n"], 2):
            del made[name]


def explicit_nulls(rnd: random.Random, made: dict[str, object]) -> None:
    if rnd.random() < 1 / 3:
        made[rnd.choice(["kind", "amount", "country", "ok", "n"])] = None


def one_percent_bad(rnd: random.Random, made: dict[str, object]) -> object:
    if rnd.random() < 0.01:
        made["amount"] = rnd.choice(["much", True, "12.50"])
        return rnd.choice([None, None, '{"id":'])
    return None


def extra(rnd: random.Random, made: dict[str, object]) -> None:
    made["extra"] = {"a": rnd.randrange(10)}


def milliseconds(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return (time.process_time() - start) * 1e3


def main(rounds: int) -> None:
    schema = Schema(
        *[iceberg.NestedField(i, name, kind, required=i == 1) for i, (name, (kind, _)) in enumerate(COLUMNS.items(), 1)]
    )
    table = Table("bench.events", "u", "file:///tmp", schema.model_dump_json(), "{}")
    spec = json.dumps({name: kind for name, (_, kind) in COLUMNS.items()})
    sql = f"SELECT unnest(json_transform(json, '{spec}')) FROM events"
    clean = events(lambda *_: None)
    optimistic_input = pa.table({"json": clean["event"].cast(pa.string())})
    looking = ConvertOptions(look_for_unknown=True)
    cases: dict[str, Callable[[], object]] = {
        "optimistic json_transform": lambda: duckdb_session.run(sql, events=optimistic_input)
    }
    inputs = {
        "clean": clean,
        "a third lacks optional fields": events(lacking),
        "a third has nulls": events(explicit_nulls),
        "1 % bad": events(one_percent_bad),
        "every row has a new field": events(extra),
    }
    for name, rows in inputs.items():
        cases[name] = partial(Converter(table, looking).convert, rows)
    plain = Converter(table, ConvertOptions(count_ignored=True))
    cases["every row has an ignored field"] = lambda: plain.convert(inputs["every row has a new field"])
    cases["infer a schema"] = lambda: infer(clean)
    figures: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, run in cases.items():
            figures[name].append(milliseconds(run))
    base = statistics.median(figures["optimistic json_transform"])
    for name, found in figures.items():
        median = statistics.median(found)
        print(f"{name:32} {median:7.1f} ms  {median / base:5.2f}x  {ROWS / median / 1e3:5.2f} M rows/s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
