"""Batches of changes on a real table, through a real task and the fence, beside a dictionary that takes them too."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from pyiceberg.table import StaticTable

from calve.catalog.catalog import Catalog
from calve.catalog.retry import Retries
from calve.catalog.rows import TableRows
from calve.commit.fence import append
from calve.commit.mark import CommitTarget, Mark
from calve.commit.stage import CommitHooks
from calve.dead_letters.rejects import DeadLetterLocation
from calve.expression import compile_format
from calve.record.receipt import Failure, Receipt
from calve.reduce.key import Key, identified
from calve.route.by_table import ByTable
from calve.route.sink_route import SinkRoute
from calve.sinks.iceberg.job import TableJob
from calve.sources.source import Split
from calve.table.definition import schema_from_columns
from calve.task import reduce_task
from calve.task.job import Job
from calve.task.task import run_tasks, shuffle_tasks
from kit.readers import with_rust

NAME = "db.rows"

LACKS: dict[str, tuple[str, ...]] = {"p": ("place",), "v": ("value",), "k": ("place", "value")}
"""Words of updates that lack columns, and which: they are kept."""

KINDS: dict[str, tuple[str, Callable[[int], Any]]] = {
    "long": ("long", lambda key: key),
    "uuid": ("uuid", lambda key: f"0f8fad5b-d9cb-469f-a165-7086772895{key:02x}"),
    "decimal": ("decimal(9, 2)", lambda key: f"{key}.50"),
    "timestamptz": ("timestamptz", lambda key: f"2026-01-01T00:00:{key:02d}Z"),
    "date": ("date", lambda key: f"2026-01-{key + 1:02d}"),
    "binary": ("binary", lambda key: ["AAEC", "AAED", "AAEE", "AAEF", "AAEG", "AAEH"][key]),
    "fixed": ("fixed[3]", lambda key: ["AAEC", "AAED", "AAEE", "AAEF", "AAEG", "AAEH"][key]),
    "string": ("string", lambda key: f"k`|\"'é\\ {key}"),
}
"""Types of a key: how a table declares them, and the JSON value of the n-th of six keys."""


@dataclass(frozen=True)
class Events:
    """A reader of events that are given."""

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield them in two batches."""
        lines = split.body["lines"]
        half = len(lines) // 2
        for part in (lines[:half], lines[half:]):
            nothing = pa.nulls(len(part), pa.string())
            yield pa.record_batch({"event": pa.array(part, pa.binary()), "malformed": nothing})


def run(job: Job, groups: list[list[Split]]) -> Iterator[bytes]:
    """Do as Spark does: every task, and, if they shuffle, every reduce task with what it was sent."""
    if not job.shuffle_partitions:
        yield from run_tasks(job, groups, iter(range(len(groups))))
        return
    sent = [record for number in range(len(groups)) for record in shuffle_tasks(job, groups, iter([number]))]
    for bucket in range(job.shuffle_partitions):
        yield from reduce_task.run(job, bucket, [record for record in reversed(sent) if record[0] == bucket])


@dataclass
class Changing:
    """A table with rows of `id`, `sub`, `place`, `value`; `id` and `sub` are its key, or, `nested`, `id` and `sub.n`."""

    catalog: Catalog
    folder: Path
    kind: str
    specs: list[tuple[str, str]]
    version: int
    branch: str = "main"
    keep: bool = False
    nested: bool = True
    oracle: dict[tuple[int, int], tuple[Any, int]] = field(default_factory=dict)
    batch: int = 0

    @property
    def sub(self) -> str:
        """Name the second column of the key."""
        return "sub.n" if self.nested else "sub"

    def create(self) -> None:
        """Make the table."""
        types = {
            "id": KINDS[self.kind][0],
            "sub": "struct<n: int>" if self.nested else "int",
            "place": "string",
            "value": "long",
        }
        columns = [{"name": name, "type": kind, "required": name != "place"} for name, kind in types.items()]
        schema = schema_from_columns(columns)
        schema = identified(schema, ["id", self.sub])
        self.catalog.create(NAME, schema.model_dump_json(), self.specs, {"format-version": str(self.version)})
        self.prepare()

    def prepare(self) -> None:
        """Give the table what global deletes need, as the sink does."""
        table = self.catalog.load(NAME)
        assert table
        if table.unpartitioned_spec_id is None and not Key(table).names_partition:
            self.catalog.add_unpartitioned_spec(NAME)

    def stage(self, changes: list[tuple[str, int, int, Any]], tasks: int = 1) -> list[dict[str, Any]]:
        """Bring changes (word, key, sub key, place) into files, with several tasks, and into the oracle."""
        self.batch += 1
        events = []
        for number, (word, key, sub, place) in enumerate(changes):
            event = {"op": "u" if word in LACKS else word, "id": KINDS[self.kind][1](key)}
            event["sub"] = {"n": sub} if self.nested else sub
            if word == "d":
                self.oracle.pop((key, sub), None)
            else:
                told = {"place": place, "value": self.batch * 1000 + number}
                told = {name: one for name, one in told.items() if name not in LACKS.get(word, ())}
                kept = dict(zip(("place", "value"), self.oracle.get((key, sub), (None, None)), strict=True))
                self.oracle[key, sub] = tuple({**kept, **told}.values())  # type: ignore[assignment]
                event |= told
            events.append(json.dumps(event).encode())
        table = self.catalog.load(NAME)
        assert table
        sink = TableJob(
            label="iceberg",
            catalog="",
            route=SinkRoute(compile_format(NAME, []), (), ByTable(compile_format("${/op}", []))),
            tables={NAME: table},
            dead_letters=DeadLetterLocation(str(self.folder / "dlq")),
            changes=True,
            keep=self.keep,
        )
        job = Job("p", f"p-{self.batch:08d}", Events(), (sink,), 100, shuffle_partitions=tasks if tasks > 1 else 0)
        cuts = [len(events) * number // tasks for number in range(tasks + 1)]
        groups = [[Split({"lines": events[start:end]})] for start, end in itertools.pairwise(cuts)]
        receipts = [msgspec.json.decode(receipt, type=Receipt | Failure) for receipt in run(job, groups)]
        assert not [receipt for receipt in receipts if isinstance(receipt, Failure) or receipt.rejects]
        return [file for receipt in receipts for one in receipt.tables for file in one.files]

    def commit(self, files: dict[int, list[dict[str, Any]]], mode: str) -> dict[int, list[Any]]:
        """Commit staged batches; give by batch the events that turned out to be no rows."""
        lost: dict[int, list[Any]] = {}

        def lose(batch: int, letters: Sequence[bytes]) -> None:
            lost[batch] = [json.loads(json.loads(letter)["event"]) for letter in letters]

        target = CommitTarget(NAME, "", self.branch, mode)  # type: ignore[arg-type]
        append(
            self.catalog,
            target,
            Mark("p", "s", self.batch),
            files,
            {"calve.rejected": "7"},
            CommitHooks(lose, Retries()),
        )
        return {batch: events for batch, events in lost.items() if events}

    def rejected(self) -> int:
        """Give how many rejects the last snapshot tells of, beside the seven that were known before its commit."""
        snapshot = StaticTable.from_metadata(self._metadata()).current_snapshot()
        assert snapshot
        assert snapshot.summary
        return int(snapshot.summary["calve.rejected"]) - 7

    def expected(self) -> list[list[Any]]:
        """Give the rows of the oracle as `[n-th key, sub key, place, value]`."""
        return sorted([key, sub, place, value] for (key, sub), (place, value) in self.oracle.items())

    def in_spark(self) -> list[list[Any]]:
        """Give the rows as Spark reads them."""
        name = f"lakehouse.{NAME}" + ("" if self.branch == "main" else f".branch_{self.branch}")
        rows = self.catalog.spark.session.sql(f"select id, {self.sub}, place, value from {name}").collect()
        return self._known([list(row) for row in rows])

    def in_pyiceberg(self) -> list[list[Any]]:
        """Give the rows as PyIceberg reads them; there must be no equality deletes."""
        table = StaticTable.from_metadata(self._metadata())
        snapshot = table.snapshot_by_name(self.branch)
        if snapshot is None:
            return []
        rows = table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().to_pylist()
        return self._known(
            [[row["id"], row["sub"]["n"] if self.nested else row["sub"], row["place"], row["value"]] for row in rows]
        )

    def in_calve(self) -> list[list[Any]]:
        """Give the rows of the main branch as `calve show` reads them, without a JVM, equality deletes too."""
        rows = TableRows(StaticTable.from_metadata(self._metadata())).reader().read_all().to_pylist()
        return self._known(
            [[row["id"], row["sub"]["n"] if self.nested else row["sub"], row["place"], row["value"]] for row in rows]
        )

    def in_rust(self) -> list[list[Any]]:
        """Give the rows as Iceberg's Rust reads them, equality deletes too; the warehouse must be a URL.

        It refuses deletion vectors, and deletes by nested or UUID keys.
        """
        sub = "sub['n']" if self.nested else "sub"
        return self._known(with_rust(self._metadata(), f"select id, {sub} as n, place, value from t"))

    def _metadata(self) -> str:
        return self.catalog.load_java(NAME).operations().current().metadataFileLocation()

    def _known(self, rows: list[list[Any]]) -> list[list[Any]]:
        return sorted([self._number(row[0]), *row[1:]] for row in rows)

    def _number(self, value: Any) -> int:
        """Find which of the six keys a value is."""
        match self.kind:
            case "long":
                return int(value)
            case "decimal":
                return int(value)
            case "uuid":
                return value[-1] if isinstance(value, bytes) else int(str(value)[-2:], 16)
            case "timestamptz":
                return int(value.second)
            case "date":
                return int(value.day) - 1
            case "binary" | "fixed":
                return bytes(value)[2] - 2
            case _:
                return int(value[-1])
