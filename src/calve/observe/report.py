"""The state of a pipeline at one time: plain data for the command line, metrics and dashboard.

The JSON form is `<state>/<pipeline>/status.json`. A reader ignores keys that it does not know and takes defaults for
missing keys, so that older commands can read newer pipelines and newer commands older ones.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from calve import structs
from calve.errors import CalveError
from calve.observe.gate_report import GateReport

__all__ = [
    "COMMIT_BUCKETS",
    "TRY_BUCKETS",
    "BranchFileStats",
    "CommitReport",
    "CommitTimes",
    "KeyIndexStats",
    "NotifyReport",
    "PipelineReport",
    "PushReport",
    "RunReport",
    "State",
    "TableReport",
    "TriesOfCommits",
    "Trouble",
    "now",
]

State = Literal["starting", "running", "waiting", "draining", "stopped", "failed", "holding"]
"""starting · running (a batch is being worked on) · waiting (nothing new) · draining (asked to stop) · stopped ·
failed (ended by an error) · holding (a target waits for the operator)."""


@dataclass
class Trouble:
    """An unresolved error; `since` is its first occurrence, `last` its last one, `count` the number of occurrences."""

    error: str
    message: str
    step: str = ""
    target: str = ""
    hint: str = ""
    since: datetime | None = None
    last: datetime | None = None
    count: int = 1

    @staticmethod
    def of(error: CalveError) -> Trouble:
        """Return an error that has just occurred."""
        at = now()
        return structs.convert({**error.to_dict(), "since": at, "last": at}, Trouble)

    def after(self, old: Trouble | None) -> Trouble:
        """Return this with the count of the occurrences before it, if it is the same error."""
        if old is not None and old.error == self.error:
            self.since, self.count = old.since, old.count + 1
        return self

    def sentence(self) -> str:
        """Return the message and the hint as one sentence."""
        return f"{self.message}. {self.hint}" if self.hint else self.message


@dataclass
class BranchFileStats:
    """The files of a table's branch after the last commit, from the snapshot's summary.

    Attributes:
        size_bytes: Of data files and delete files.
        delete_rows: Rows in delete files: positions and keys.
        snapshots: The snapshots that the table keeps.
        manifests: The manifests of the last snapshot.
        manifest_list_bytes: The size of their list; 0: few manifests, or not known.
        last_maintenance: When it was last maintained: by this process, or the newest snapshot of the operation
            `replace`.
    """

    data_files: int = 0
    size_bytes: int = 0
    delete_files: int = 0
    delete_rows: int = 0
    snapshots: int = 0
    manifests: int = 0
    manifest_list_bytes: int = 0
    last_maintenance: datetime | None = None


@dataclass
class KeyIndexStats:
    """The key index of a table after the last commit; counts are those of this process.

    Attributes:
        rows: Its entries.
        size_bytes: The size of its files.
        read_rows: The rows whose keys it has read.
        stale: The rows that it has found, and that were deleted already.
        rebuilt: How often it began anew because it could not be used.
        audited_rows: The rows that were compared with it.
        last_audit: When some were compared last.
    """

    rows: int = 0
    size_bytes: int = 0
    read_rows: int = 0
    stale: int = 0
    rebuilt: int = 0
    audited_rows: int = 0
    last_audit: datetime | None = None


@dataclass
class CommitReport:
    """One commit of this process: the table, its new rows, its snapshot and the time."""

    table: str
    rows: int
    snapshot_id: int | None
    at: datetime


COMMIT_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""The upper bounds of the histogram of commits, in seconds."""


@dataclass
class CommitTimes:
    """How long commits took since the process started: counts by `COMMIT_BUCKETS` and one above, and the sum."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(COMMIT_BUCKETS) + 1))
    sum_seconds: float = 0.0

    def add(self, seconds: float) -> None:
        """Count a commit."""
        self.counts[bisect_left(COMMIT_BUCKETS, seconds)] += 1
        self.sum_seconds += seconds


TRY_BUCKETS = (0, 1, 2, 5, 10, 20)
"""The upper bounds of the histograms of conflicts and of further tries, by commit."""


@dataclass
class TriesOfCommits:
    """How often something happened to commits of this process: counts by `TRY_BUCKETS` and one above, and the sum."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(TRY_BUCKETS) + 1))
    sum: int = 0

    def add(self, times: int) -> None:
        """Count a commit."""
        self.counts[bisect_left(TRY_BUCKETS, times)] += 1
        self.sum += times


@dataclass
class NotifyReport:
    """One receiver of events: how many it has got from this process, how many wait, and how many it never gets.

    Attributes:
        error: Why it gets none at the moment; empty: it does.
    """

    sent: int = 0
    waiting: int = 0
    dropped: int = 0
    error: str = ""


@dataclass
class PushReport:
    """How many times the metrics were pushed by this process, how often that failed, and why the last one did."""

    sent: int = 0
    failed: int = 0
    error: str = ""


@dataclass
class TableReport:
    """One target table: committed rows, rejects (by code), values that became NULL (by column); for an index also the
    events of which it had newer ones.

    Attributes:
        reasons: Why values became NULL: an example for each column.
        ignored: How many events had a field that has no column, by field (`tally.MOST_NAMES`, and `tally.OTHERS`).
        failed_rules: How many rows each rule has rejected, tagged or changed.
        valid_through: The time through which it is complete: of events, or of the source's records.
        commit_conflicts: How often another writer was faster, since the process started.
        late_events: How many events were late: it was complete through their time already.
        equality_deletes: Its rows of equality deletes after the last commit or conversion.
        converting: Whether they are being converted.
        conversion_error: Why the last conversion failed; this does not stop commits.
        maintenance_rounds: How often this process has maintained it, and in how many seconds; inspections that
            found nothing to do count only as seconds.
        maintenance_error: Why the last maintenance failed; this does not stop commits.
        files: Its files; None: not known yet.
        small_files: Its small data files when maintenance last looked; None: it has not.
        key_index: The index of its keys; None: there is none, or it was not used yet.
        gate: What waits to be published; None: it has no gate, or no commit of this process.
    """

    rows: int = 0
    commits: int = 0
    last_commit: datetime | None = None
    snapshot_id: int | None = None
    rejects: dict[str, int] = field(default_factory=dict)
    nulled: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    ignored: dict[str, int] = field(default_factory=dict)
    failed_rules: dict[str, int] = field(default_factory=dict)
    superseded: int = 0
    valid_through: datetime | None = None
    late_events: int = 0
    commit_conflicts: int = 0
    equality_deletes: int = 0
    converting: bool = False
    last_conversion: datetime | None = None
    conversion_error: Trouble | None = None
    maintenance_rounds: int = 0
    maintenance_seconds: float = 0.0
    maintenance_error: Trouble | None = None
    files: BranchFileStats | None = None
    small_files: int | None = None
    key_index: KeyIndexStats | None = None
    gate: GateReport | None = None
    error: Trouble | None = None


@dataclass
class RunReport:
    """The counts of this process: events, rows by table, rejects by code, values that became NULL by `table.column`."""

    events: int = 0
    unrouted: int = 0
    dropped: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    rejects: dict[str, int] = field(default_factory=dict)
    nulled: dict[str, int] = field(default_factory=dict)


@dataclass
class PipelineReport:
    """One pipeline.

    Attributes:
        pid: The process that runs it, on `host`; `process_started` distinguishes a reused pid.
        updated: When this was written.
        feeds: The pipelines that run as a part of it, because their events come from it.
        spark_pages: The address of Spark's own pages; empty: they are off.
        dlq: The folders or object-store prefixes of its rejects; none: the default folder.
        files: How the files of the last batch were written, and why.
        dead_letter_tables: The tables of its rejects; `tables` has them, too.
        run: The counts of the process alone.
        events: Events read since the pipeline's first start, as are all counts but those of `run`.
        events_per_second: Over about the last ten seconds.
        passed_over: Records of change streams that describe no row: tombstones, control records.
        dropped: Events that a processor dropped.
        added: How many more events there are than were read, because a processor split some.
        duplicates: Dropped events whose key had passed before.
        forgotten_keys: Keys that were forgotten before the end of their window.
        rejects: By code, over all tables, with events that have no table.
        source: What the source says about itself, e.g. how far a load is.
        stopped_tables: The tables of the source that it does not read any more, while the others go on.
        refusing: Why the source refuses new events at the moment; empty while it accepts them.
        refused: How many requests the source has refused, by status, since the process started.
        last_refused: When it last refused some; as `last_reject` and `last_nulled`, in this run.
        lag_rows: Rows that wait in the source; -1: unknown.
        freshness_seconds: Age of the oldest event of the last commit at the time of the commit, if known.
        errors: The errors that stop the complete pipeline; `tables` has those of single tables.
        paused: Whether it reads nothing, because `calve pause` was called.
        pending: The dead letters that wait for a replay, by table (empty: none) and code (empty: not known).
        dead_letter_bytes: The size of the files with dead letters.
        dead_letters_full: Whether it reads nothing, because there is no room for more dead letters.
        commits: The last commits of this process, oldest first.
        notify: The receivers of events about tables, by address.
        backpressure_seconds: How long this process has read nothing because too many batches waited for a commit.
        step_seconds: The time of each step of a batch, of all tasks together, in this process.
        lag_parts: Rows that wait in each part of the source, e.g. a Kafka partition.
        otlp: The pushes of the metrics; None: they are not pushed.
        commit_times: How long commits took.
        commit_conflicts: How often another writer was faster, by commit; also of commits that failed.
        commit_repeats: How often commits were tried again, for any reason.
    """

    pipeline: str
    state: State = "starting"
    pid: int = 0
    host: str = ""
    process_started: int = 0
    started: datetime | None = None
    updated: datetime | None = None
    feeds: list[str] = field(default_factory=list)
    spark_pages: str = ""
    dlq: list[str] = field(default_factory=list)
    files: str = ""
    dead_letter_tables: list[str] = field(default_factory=list)
    run: RunReport = field(default_factory=RunReport)
    events: int = 0
    events_per_second: float = 0.0
    bytes: int = 0
    unrouted: int = 0
    passed_over: int = 0
    dropped: int = 0
    added: int = 0
    duplicates: int = 0
    forgotten_keys: int = 0
    rejects: dict[str, int] = field(default_factory=dict)
    batches: int = 0
    last_batch: int | None = None
    last_batch_seconds: float | None = None
    staged_batches: int = 0
    staged_bytes: int = 0
    source: str = ""
    stopped_tables: list[str] = field(default_factory=list)
    refusing: str = ""
    refused: dict[str, int] = field(default_factory=dict)
    last_refused: datetime | None = None
    last_reject: datetime | None = None
    last_nulled: datetime | None = None
    lag_rows: int = 0
    lag_bytes: int = 0
    freshness_seconds: float | None = None
    tables: dict[str, TableReport] = field(default_factory=dict)
    errors: list[Trouble] = field(default_factory=list)
    paused: bool = False
    pending: dict[str, dict[str, int]] = field(default_factory=dict)
    dead_letter_bytes: int = 0
    dead_letters_full: bool = False
    commits: list[CommitReport] = field(default_factory=list)
    notify: dict[str, NotifyReport] = field(default_factory=dict)
    backpressure_seconds: float = 0.0
    step_seconds: dict[str, float] = field(default_factory=dict)
    lag_parts: dict[str, int] = field(default_factory=dict)
    otlp: PushReport | None = None
    commit_times: CommitTimes = field(default_factory=CommitTimes)
    commit_conflicts: TriesOfCommits = field(default_factory=TriesOfCommits)
    commit_repeats: TriesOfCommits = field(default_factory=TriesOfCommits)

    @property
    def rows(self) -> int:
        """Rows committed, over all tables but those of dead letters."""
        return sum(table.rows for table in self.targets.values())

    @property
    def targets(self) -> dict[str, TableReport]:
        """The tables without those of dead letters."""
        return {name: table for name, table in self.tables.items() if name not in self.dead_letter_tables}

    @property
    def last_commit(self) -> datetime | None:
        """The newest commit of any table."""
        return max((table.last_commit for table in self.tables.values() if table.last_commit), default=None)

    def pending_by_code(self) -> dict[str, int]:
        """Return the dead letters that wait, by code, over all tables."""
        by_code: Counter[str] = Counter()
        for codes in self.pending.values():
            by_code.update(codes)
        return dict(by_code)

    def rejects_without_table(self) -> dict[str, int]:
        """Return the rejects, by code, of events that belong to no table."""
        named: Counter[str] = Counter()
        for table in self.tables.values():
            named.update(table.rejects)
        return {code: count - named[code] for code, count in self.rejects.items() if count > named[code]}

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values; times are ISO 8601 in UTC."""
        return dict(msgspec.to_builtins(self))

    @staticmethod
    def from_dict(data: dict[str, Any]) -> PipelineReport:
        """Read a report of `to_dict`, from this or another version.

        Raises:
            ValueError: It is something else.
        """
        return structs.convert(data, PipelineReport)


def now() -> datetime:
    """Return the current time in the precision of reports."""
    return datetime.now(UTC).replace(microsecond=0)
