"""Events with a provisional route go where they go if all of them is read first."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calve.columns.fields import Fields
from calve.compiled import library
from calve.dead_letters.rejects import DeadLetterLocation
from calve.event.reject import Code
from calve.expression import compile_format
from calve.record.receipt import Receipt
from calve.record.target import TableRef
from calve.route.route import Router
from calve.route.sink_route import SinkRoute
from calve.sinks.iceberg.job import TableJob
from calve.sources.source import Split
from calve.table.definition import schema_from_columns
from calve.table.loaded import Absent, Table
from calve.task.job import Job
from calve.task.task import run_task
from convert.random_values import random_value, spoiled
from kit.tables import table_of

COLUMNS = [{"name": "n", "type": "long"}, {"name": "s", "type": "string"}, {"name": "to", "type": "string"}]
NAMES = ["t0", "t1", "t2", "wide", "absent", "new", "bad name/", ""]


@dataclass(frozen=True)
class Texts:
    """A reader of texts."""

    events: list[bytes]
    rows: int

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the texts, so many at once."""
        for start in range(0, len(self.events), self.rows):
            yield pa.record_batch({"event": pa.array(self.events[start : start + self.rows], pa.binary())})


def tables(folder: Path, columns: list[dict[str, Any]]) -> dict[str, Table | Absent]:
    def named(name: str, more: list[dict[str, Any]]) -> Table:
        found = table_of(schema_from_columns(columns + more))
        return replace(found, identifier=f"ns.{name}", location=str(folder / name))

    wide = named("wide", [{"name": "amount", "type": "double"}])
    return {f"ns.{name}": named(name, []) for name in [*NAMES[:3], "ttrue", "tfalse"]} | {
        "ns.wide": wide,
        "ns.absent": Absent(Code.NO_SUCH_TABLE.value, "it is not there"),
    }


def run(folder: Path, events: list[bytes], to: str, columns: list[dict[str, Any]], **options: Any) -> Receipt:
    letters = DeadLetterLocation(str(folder / "dlq"))
    sink = TableJob("iceberg", SinkRoute(compile_format(to)), letters, "c", tables(folder, columns), **options)
    receipt = run_task(Job("p", "run", Texts(events, 97), (sink,), max_open_writers=9), [Split({})], 0)
    assert isinstance(receipt, Receipt), receipt
    return receipt


def outcome(receipt: Receipt) -> dict[str, Any]:
    """What became of the events, in no order."""
    files = [(one.table, json.loads(bytes(file))["file-path"]) for one in receipt.tables for file in one.files]
    lines = [json.loads(line) for one in receipt.rejects for line in Path(one.path).read_text().splitlines()]
    for line in lines:
        del line["timestamp"]
    seen = {"rows": Counter(), "letters": Counter(json.dumps(line, sort_keys=True) for line in lines)}
    for table, path in files:
        seen["rows"].update((table, repr(row)) for row in pq.read_table(path).to_pylist())
    rest = {
        "nulled": sorted(
            (one.table, sorted(one.counts.items())) for one in receipt.nulled
        ),  # the reason is that of any
        "ignored": sorted((one.table, sorted(one.counts.items())) for one in receipt.ignored),
        "misfits": {one.target: one.inferred for one in receipt.misfits},
    }
    return seen | rest | {"seen": receipt.seen}


def random_event(rnd: random.Random) -> bytes:
    """Return an event; of some, its first part says less than all of it."""
    to = f'"to":"{rnd.choice(NAMES)}"'
    odd = [
        '"to":null',
        '"to":7',
        '"\\u0074o":"t1"',
        '"to":"\\ud800"',
        '"to":"t\\u0031"',
        '"to":{"to":"t2"}',
        '"to":"\\u0000"',
    ]
    fields = [f'"n":{rnd.randrange(99)}', f'"s":{random_value(rnd)}', f'"{rnd.choice("xyn")}":{random_value(rnd)}']
    fields.append(to if rnd.random() < 0.9 else rnd.choice(odd))
    fields += [f'"to":"{rnd.choice(NAMES)}"'] * (rnd.random() < 0.05) + ['"to":"t0"'] * (rnd.random() < 0.05)
    rnd.shuffle(fields)
    text = rnd.choice(["", " "]) + "{" + rnd.choice([",", ", "]).join(fields) + "}"
    text = (
        spoiled(rnd, text) if rnd.random() < 0.1 else text[: rnd.randrange(len(text))] if rnd.random() < 0.05 else text
    )
    return text.encode(errors="surrogatepass") if rnd.random() < 0.98 else b'{"to":"t1","s":"\xff"}'


@pytest.mark.skipif(library.load() is None, reason="without the core all of an event is read first")
@pytest.mark.parametrize("to", ["ns.${/to}", "ns.${to}", "ns.${/to}${/x}", "ns.t${/n > 40}"])
@pytest.mark.parametrize("has_column", [True, False])
@pytest.mark.parametrize(
    "options", [{}, {"evolves": True, "infers": True}, {"fields": Fields(exclude=frozenset({"to"}))}]
)
def test_a_provisional_route_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str, has_column: bool, options: dict[str, Any]
) -> None:
    columns = COLUMNS if has_column else COLUMNS[:2]
    for seed in range(3):
        rnd = random.Random(f"{seed}{to}{has_column}{options}")
        events = [random_event(rnd) for _ in range(400)]
        found = outcome(run(tmp_path / f"{seed}-a", events, to, columns, **options))
        with monkeypatch.context() as patched:
            patched.setattr(TableJob, "self_validating_tables", ())
            assert found == outcome(run(tmp_path / f"{seed}-b", events, to, columns, **options))
        assert found["letters"], found["rows"]


@pytest.mark.skipif(library.load() is None, reason="without the core all of an event is read first")
def test_a_provisional_route_is_all_that_good_events_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    validated: list[int] = []
    monkeypatch.setattr("calve.task.path.validated", lambda events, fields: validated.append(len(events)))
    good = [f'{{"n":{n},"to":"t{n % 3}","s":"x"}}'.encode() for n in range(1000)]
    receipt = run(tmp_path, good, "ns.${/to}", COLUMNS)
    assert {one.table: one.rows for one in receipt.tables} == {"ns.t0": 334, "ns.t1": 333, "ns.t2": 333}
    assert validated == []


def test_a_second_pass_over_an_event_reads_all_of_it(tmp_path: Path) -> None:
    """An event of which only its end tells that it belongs to a table of that pass."""
    job_tables = tables(tmp_path, COLUMNS)
    sink = TableJob("i", SinkRoute(compile_format("ns.${/to}")), DeadLetterLocation(str(tmp_path)), "c", job_tables)
    events = [b'{"to":"t0","n":1,"to":"t1"}', b'{"to":"t1","n":2}', b'{"to":"t0","n":3}']
    job = Job("p", "run", Texts(events, 3), (sink,), max_open_writers=9)
    receipt = run_task(replace(job, only=[{TableRef(0, "ns.t1")}]), [Split({})], 0)
    assert isinstance(receipt, Receipt)
    assert [(one.table, one.rows) for one in receipt.tables] == [("ns.t1", 2)]


@pytest.mark.parametrize("name", ["a", "ä b", "\\u00e9", "", "0", "true", "null"])
def test_names_of_fields_without_sql_are_those_of_sql(name: str) -> None:
    values = [f'"{name}"', '"x"', "null", "1.50", "true", '["a"]', '{"a":1}', '"\\u0000"']
    events = [f'{{"f":{value},"g":"G"}}' for value in values] + ['{"g":"G"}']
    for text in ("${/f}", "p.${f}_${/g}", "${g}${/g}", "${/f/a}", "${1}${g}", "p.t_${/f}"):
        route = SinkRoute(compile_format(text))
        sql = SinkRoute(replace(route.table, is_joined=False))
        for some in (events, events[:2], events[2:]):
            rows = pa.table({"json": some})
            one, other = (Router([each]).route(rows) for each in (route, sql))
            assert [(part[1], part[2] and part[2].to_pylist()) for part in one.parts] == [
                (part[1], part[2] and part[2].to_pylist()) for part in other.parts
            ]
            rows_of = [
                sorted(row for table in each.rejects.values() for row in table["row"].to_pylist())
                for each in (one, other)
            ]
            assert rows_of[0] == rows_of[1]  # the reason names the fields that a name joins, which SQL does not tell


def test_the_text_of_a_field_needs_no_sql(monkeypatch: pytest.MonkeyPatch) -> None:
    route = SinkRoute(compile_format("ns.${/to}"))
    monkeypatch.setattr("calve.event.duckdb_session.run", None)
    routed = Router([route]).route(pa.table({"json": [msgspec.json.encode({"to": name}).decode() for name in "aba"]}))
    assert [(name, at and at.to_pylist()) for _, name, at in routed.parts] == [("ns.a", [0, 2]), ("ns.b", [1])]
