"""State folders as pipelines leave them, for tests and screenshots: healthy, lagging, failing, empty and hostile."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from math import sin
from pathlib import Path

import msgspec
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from calve.catalog.sqlite import embedded
from calve.dashboard.history import Sample, SampleHistory
from calve.errors import CommitError, SourceUnavailableError
from calve.observe.blueprint import BLUEPRINT_FILE, Blueprint, SinkPart
from calve.observe.recent_lines import LINES_FILE
from calve.observe.report import BranchFileStats, KeyIndexStats, TableReport
from calve.observe.status import BatchCounts, PipelineStatus
from calve.observe.status_file import STATUS_FILE, read_report
from calve.observe.totals import Totals
from calve.settings.masked import MASK

HOSTILE = "</td><script>alert(1)</script>\"'&{{7*7}}\x1b[2J\u202e"
"""A name and a value that would do harm if it were not escaped."""
PATTERNS = (("orders", "shop.orders"), ("clicks", "shop.page_views"))


def healthy(state: Path) -> None:
    """Two pipelines that keep up."""
    for at, (name, table) in enumerate(PATTERNS):
        earlier = Totals(
            rejects={"NOT_COERCIBLE": 12, "MALFORMED": 3},
            tables={table: TableReport(rejects={"NOT_COERCIBLE": 12}, failed_rules={"id_unique": 1234})},
        )
        status = _running(name, table, rows=482_110_040 // (at + 1), earlier=earlier)
        status.lag(600, 600 * 180)
        status.table_files(table, _files(420, 61 << 30, 12_000))
        status.after_commit(
            table, KeyIndexStats(2_000_000, 49_000_000, audited_rows=5000, last_audit=datetime.now(UTC))
        )
        save(state, status)
    warehouse = state.parent / "lakehouse"
    _describe(state, "orders", "shop.${/kind}", warehouse)
    lake(warehouse, "shop.orders", ORDERS)
    _write_history(
        state,
        {name: (lambda x: 18_000 + 4_000 * sin(x * 9), lambda x: 700.0 + 500.0 * sin(x * 31)) for name, _ in PATTERNS},
    )


def rejecting(state: Path) -> None:
    """Two pipelines that keep up, and dead letters of one that wait."""
    healthy(state)
    letters(state, "orders", "amount", "'12,50' is not a valid double", '{"id": 7, "amount": "12,50"}')


def lagging(state: Path) -> None:
    """A pipeline whose events arrive faster than they are written, into a table with many small files."""
    status = _running("orders", "shop.orders", rows=109_104_220)
    status.lag(4_812_000, 4_812_000 * 180)
    status.freshness(412.0)
    status.table_files("shop.orders", _files(18_440, 3 << 30, 2_400_000, snapshots=17_280, is_maintained=False))
    save(state, status)
    _write_history(state, {"orders": (lambda x: 21_000.0, lambda x: 4_812_000 * max(0.0, x - 0.3) / 0.7)})


def failing(state: Path) -> None:
    """A pipeline whose source does not answer, with a dropped table, and one that is paused."""
    status = _running("orders", "shop.orders", rows=52_120_400)
    hint = "Start it, or correct bootstrap_servers; Calve tries again"
    status.trouble(SourceUnavailableError("Kafka at kafka:9092 does not answer", step="read", hint=hint))
    dropped = "The table shop.refunds was dropped and created again, and the staged files belong to the old one"
    hint = "Restore the old table, or let it go: calve state forget shop.refunds"
    status.trouble(CommitError(dropped, step="commit", hint=hint), table="shop.refunds")
    status.staged(3, 1 << 20)
    save(state, status)
    other = _running("clicks", "shop.page_views", rows=50_008_000)
    other.paused(True)
    save(state, other)
    falls: Callable[[float], float] = lambda x: 15_000.0 if x < 0.8 else 0.0  # noqa: E731
    _write_history(state, {name: (falls, lambda x: 0.0) for name, _ in PATTERNS})


def empty(state: Path) -> None:
    """A state folder that no pipeline has used."""
    state.mkdir(parents=True)


def hostile(state: Path) -> None:
    """Names, reasons and events that would do harm on a page that does not escape them."""
    status = _running("orders", HOSTILE, rows=1)
    status.batch_written(BatchCounts(2, 3, 90, rejects={HOSTILE: {HOSTILE: 2}}), 0.4)
    status.trouble(CommitError(HOSTILE, step="commit", hint=HOSTILE), table=HOSTILE)
    status.table_committed("shop.orders", 2, 1)
    save(state, status)
    warehouse = state.parent / "lakehouse"
    _describe(state, "orders", HOSTILE, warehouse, HOSTILE)
    hostile_rows = [{"id": 1, "text": HOSTILE, HOSTILE.replace(".", ""): HOSTILE * 20}]
    lake(warehouse, "shop.orders", pa.Table.from_pylist(hostile_rows), {"comment": HOSTILE})
    history = SampleHistory(state / "_dashboard" / "history.json")
    history.rows.fill("orders", HOSTILE, [(time.time() - 60, 1), (time.time(), 5)])
    history.rows.save()
    letters(state, "orders", HOSTILE, HOSTILE, HOSTILE * 3, table=HOSTILE, code=HOSTILE)


ALL = {one.__name__: one for one in (healthy, rejecting, lagging, failing, empty, hostile)}


def save(state: Path, status: PipelineStatus) -> None:
    """Write the status of a pipeline."""
    folder = state / status.name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / STATUS_FILE).write_text(json.dumps(status.report().to_dict()))


def _running(name: str, table: str, rows: int, earlier: Totals | None = None) -> PipelineStatus:
    totals, recent = earlier or Totals(), min(rows, 19_000)
    status = PipelineStatus(name, msgspec.structs.replace(totals, events=rows - recent, bytes=(rows - recent) * 180))
    status.batch_written(BatchCounts(1, recent, recent * 180), 0.5)
    at = datetime.now(UTC).replace(microsecond=0)
    for number in range(5, 0, -1):
        status.table_committed(table, rows // 5, 7_000_000_000 + number, at - timedelta(seconds=5 * number))
    status.freshness(2.4)
    status.set_state("running")
    return status


def _files(
    count: int, size_bytes: int, deletes: int, snapshots: int = 212, is_maintained: bool = True
) -> BranchFileStats:
    maintained = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=3)
    last = maintained if is_maintained else None
    return BranchFileStats(count, size_bytes, 8, deletes, snapshots, last_maintenance=last)


def letters(
    state: Path,
    pipeline: str,
    name: str,
    reason: str,
    event: str,
    table: str = "shop.orders",
    code: str = "NOT_COERCIBLE",
) -> None:
    folder = state / pipeline / "dlq"
    folder.mkdir(parents=True, exist_ok=True)
    entry = {"timestamp": "2026-11-22T09:15:02.120Z", "pipeline": pipeline, "table": table, "code": code}
    line = json.dumps({**entry, "field": name, "reason": reason, "event": event})
    (folder / "1.ndjson").write_text(f"{line}\n" * 3)


ORDERS = pa.table(
    {
        "id": pa.array(range(1, 31), pa.int64()),
        "city": ["Bern", None, "Biel"] * 10,
        "at": pa.array(
            [datetime(2026, 11, 22, 9, number, tzinfo=UTC) for number in range(30)], pa.timestamp("us", "UTC")
        ),
    }
)


def lake(folder: Path, name: str, rows: pa.Table, properties: dict[str, str] | None = None) -> None:
    """Write a table of an embedded catalog, once."""
    if folder.exists():
        return
    folder.mkdir()
    catalog = SqlCatalog("lakehouse", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace(name.partition(".")[0])
    catalog.create_table(name, rows.schema, properties=properties or {}).append(rows)
    catalog.close()


def _describe(state: Path, name: str, target: str, warehouse: Path, word: str = "grok") -> None:
    """Write what a run writes about its pipeline and its log."""
    sinks = (
        SinkPart("iceberg", target, (("known",),), embedded(warehouse)),
        SinkPart("opensearch", f"logs-{word}", (("errors", "_default"), (word,))),
    )
    yaml = f"{name}:\n  source:\n    kafka:\n      password: {MASK}\n      topic: {json.dumps(word)}\n"
    blueprint = Blueprint("kafka", ("parse_json", word, "date"), sinks, yaml)
    (state / name / BLUEPRINT_FILE).write_bytes(msgspec.json.encode(blueprint))
    lines = [f"2026-11-22T09:15:0{number}Z created the table shop.orders {word}" for number in range(5)]
    (state / name / LINES_FILE).write_text("\n".join(lines) + "\n")


def _write_history(state: Path, curves: dict[str, tuple[Callable[[float], float], Callable[[float], float]]]) -> None:
    """Write an hour of samples: the rate and the lag as functions of the part of the hour."""
    file = state / "_dashboard" / "history.json"
    history, now = SampleHistory(file), time.time()
    for name, (rate, lag) in curves.items():
        parts = [number / 360 for number in range(360)]
        report = read_report(str(state), name)
        assert report is not None
        rejects = sum(report.rejects.values())
        events, samples = report.events - 10 * sum(map(rate, [*parts, 1.0])), []
        for number, x in enumerate(parts):
            events += 10 * rate(x)
            samples.append(
                Sample(now - 3600 + 10 * number, int(events), int(lag(x)), 0, 2.4 + lag(x) / 12_000, rejects)
            )
        history.fill(name, samples)
        for table, figures in report.targets.items():
            steps = [(now - 3600 + 60 * number, figures.rows - 40_000 * (60 - number)) for number in range(61)]
            history.rows.fill(name, table, steps)
    history.save()
