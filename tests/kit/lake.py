"""The passes of a pipeline over its batches, in this process: tasks, driver and an in-memory catalog, without Spark."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from calve.operate.dry_run_catalog import DryRunCatalog
from calve.pipeline.batch import Writer
from calve.pipeline.pipeline_parts import PipelineParts
from calve.pipeline.plugins import PLUGINS
from calve.processors.key_filter import KeyMemory
from calve.record.receipt import Receipt
from calve.settings import parse_text
from calve.sources.source import Planned, Split
from calve.state.location import state_folder_at

__all__ = ["Lake"]


class Tasks:
    """Runs one task for each item, as `engine.tasks` does."""

    parallelism = 99

    def run(self, function: Callable[[Iterator[Any]], Iterable[Any]], items: Iterable[Any]) -> list[Any]:
        """Return what all tasks yield, in their order."""
        return [each for item in items for each in function(iter([item]))]

    def run_twice(self, first: Callable[..., Any], second: Callable[..., Any], items: Iterable[Any], count: int) -> Any:
        """Return what the tasks of the second stage yield."""
        parts: dict[int, list[tuple[int, bytes]]] = {number: [] for number in range(count)}
        for number, message in self.run(first, items):
            parts[number % count].append((number, message))
        return [each for number, records in parts.items() for each in second(number, records)]


@dataclass(frozen=True)
class Texts:
    """A reader of splits that hold texts."""

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the texts."""
        values = [None if each is None else each.encode("utf-8", "surrogateescape") for each in split.body["events"]]
        yield pa.record_batch({"event": pa.array(values, pa.binary())})


@dataclass
class Lake:
    """A pipeline with one Iceberg sink, and its tables.

    Attributes:
        folder: Where files are written.
        sink: The options of the sink.
        processor: The processors.
    """

    folder: Path
    sink: dict[str, Any]
    processor: list[dict[str, Any]] = field(default_factory=list)
    catalog: DryRunCatalog = field(init=False)
    rows: dict[str, list[dict[str, Any]]] = field(init=False, default_factory=dict)
    letters: list[dict[str, Any]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        """Open the pipeline."""
        options = {"table_location": str(self.folder / "table"), **self.sink}
        pipeline = {
            "source": {"file": {"path": "none/*.ndjson"}},
            "processor": self.processor,
            "sink": [{"iceberg": options}],
        }
        if not self.processor:
            del pipeline["processor"]
        [settings] = parse_text(json.dumps({"p": pipeline}), PLUGINS).pipelines
        self.catalog = DryRunCatalog("lake", {}, lambda name: None)
        self._parts = PipelineParts(
            settings, state_folder_at(str(self.folder)), lambda properties: ("lake", cast(Any, self.catalog))
        )
        self._parts.open()
        self._batches, self._runs = itertools.count(1), itertools.count(1)

    def write(self, *tasks: Sequence[str | None]) -> list[Receipt]:
        """Write a batch, a task for each list of events; keep its rows and dead letters."""
        size = 64 << 20  # so that no two are of one task
        planned = Planned([Split({"events": list(events)}, size) for events in tasks], {})
        batch = next(self._batches)
        self._parts.begin_batch(planned)
        receipts = self.writer().attempt(batch, planned)
        for receipt in receipts:
            self._keep(receipt)
        return receipts

    def writer(self, memory: Callable[[int], KeyMemory | None] = lambda batch: None) -> Writer:
        """Return what writes the batches of the pipeline."""
        spark = cast(Any, SimpleNamespace(tasks=Tasks(), describe=lambda pipeline, work: None))
        parts: Any = SimpleNamespace(
            job=self._job,
            tables=self._parts.tables,
            lacking=self._parts.lacking,
            in_order=self._parts.in_order,
            one_task=self._parts.one_task,
        )
        return Writer(spark, parts, "state", cast(Any, None), memory=memory)

    @property
    def memory(self) -> KeyMemory | None:
        """The keys that the pipeline remembers, without files."""
        return self._parts.memory

    def schema(self, name: str = "ns.t") -> dict[str, str] | None:
        """Return the columns of a table, with their types; None if there is no such table."""
        table = self.catalog.load(name)
        return None if table is None else {each.name: str(each.field_type) for each in table.schema.fields}

    def codes(self) -> list[str]:
        """Return the codes of all dead letters, sorted."""
        return sorted(letter["code"] for letter in self.letters)

    def _job(self, *of_pass: Any) -> Any:
        job = self._parts.job(*of_pass)
        return replace(job, reader=Texts(), run=f"{job.run}-{next(self._runs)}")  # a batch may be written again

    def _keep(self, receipt: Receipt) -> None:
        for written in receipt.tables:
            for file in written.files:
                if file.is_data:
                    self.rows.setdefault(written.table, []).extend(pq.read_table(file.file_path).to_pylist())
        for rejects in receipt.rejects:
            self.letters += [json.loads(line) for line in Path(rejects.path).read_text().splitlines()]
