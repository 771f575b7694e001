"""What Prometheus gets of a pipeline: the families of metrics, each with its samples from a report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from calve.observe.gate_metrics import GATES
from calve.observe.report import (
    COMMIT_BUCKETS,
    TRY_BUCKETS,
    BranchFileStats,
    KeyIndexStats,
    NotifyReport,
    PipelineReport,
    TriesOfCommits,
    now,
)

__all__ = ["COUNTERS", "GAUGES", "HISTOGRAMS", "Samples"]

Sample = tuple[list[str], float | int | None]
Samples = Callable[[PipelineReport], Iterable[Sample]]
Distribution = Callable[[PipelineReport], tuple[Sequence[int], float]]
"""The counts by bucket, with one above all, and the sum."""


def _one(value: Callable[[PipelineReport], float | int | None]) -> Samples:
    return lambda report: [([], value(report))]


def _rejects(report: PipelineReport) -> Iterator[Sample]:
    for name, table in report.tables.items():
        yield from (([name, code], count) for code, count in table.rejects.items())
    yield from ((["", code], count) for code, count in report.rejects_without_table().items())


def _pending(report: PipelineReport) -> Iterator[Sample]:
    for name, codes in report.pending.items():
        yield from (([name, code], count) for code, count in codes.items())


def _nulled(report: PipelineReport) -> Iterator[Sample]:
    for name, table in report.tables.items():
        yield from (([name, column], count) for column, count in table.nulled.items())


def _ignored(report: PipelineReport) -> Iterator[Sample]:
    for name, table in report.tables.items():
        yield from (([name, field], count) for field, count in table.ignored.items())


def _failed_rules(report: PipelineReport) -> Iterator[Sample]:
    for name, table in report.tables.items():
        yield from (([name, rule], count) for rule, count in table.failed_rules.items())


def _files(value: Callable[[BranchFileStats], int]) -> Samples:
    return lambda report: [([name], value(table.files)) for name, table in report.tables.items() if table.files]


def _key_index(value: Callable[[KeyIndexStats], int]) -> Samples:
    return lambda report: [
        ([name], value(table.key_index)) for name, table in report.tables.items() if table.key_index is not None
    ]


def _tries(value: Callable[[PipelineReport], TriesOfCommits]) -> Distribution:
    return lambda report: (value(report).counts, value(report).sum)


def _receivers(value: Callable[[NotifyReport], int]) -> Samples:
    return lambda report: [([address], value(receiver)) for address, receiver in report.notify.items()]


def _lag_rows(report: PipelineReport) -> float | None:
    return report.lag_rows if report.lag_rows >= 0 else None


COUNTERS: tuple[tuple[str, str, tuple[str, ...], Samples], ...] = (
    ("calve_events", "Events read.", (), _one(lambda r: r.events)),
    ("calve_event_bytes", "Bytes of the events read.", (), _one(lambda r: r.bytes)),
    ("calve_unrouted_events", "Events that matched no route.", (), _one(lambda r: r.unrouted)),
    (
        "calve_passed_over_events",
        "Records of change streams that change no row, e.g. tombstones.",
        (),
        _one(lambda r: r.passed_over),
    ),
    ("calve_dropped_events", "Events that a processor dropped.", (), _one(lambda r: r.dropped)),
    ("calve_duplicate_events", "Dropped events whose key had passed before.", (), _one(lambda r: r.duplicates)),
    (
        "calve_forgotten_keys",
        "Keys that `deduplicate` forgot before their window ended, because there were too many.",
        (),
        _one(lambda r: r.forgotten_keys),
    ),
    ("calve_added_events", "Events that `split_event` made beyond those read.", (), _one(lambda r: r.added)),
    ("calve_batches", "Batches staged.", (), _one(lambda r: r.batches)),
    (
        "calve_refused_requests",
        "Requests that the source refused, by status of the answer, since the process started.",
        ("status",),
        lambda r: [([status], count) for status, count in r.refused.items()],
    ),
    ("calve_rejects", "Events in the dead-letter queue.", ("table", "code"), _rejects),
    ("calve_nulled_values", "Values that did not fit and became NULL.", ("table", "column"), _nulled),
    (
        "calve_ignored_fields",
        "Events with a field that has no column, with a repeated key, or with a time that was rounded; `(others)` are "
        "all further fields.",
        ("table", "field"),
        _ignored,
    ),
    (
        "calve_failed_rules",
        "Rows that a rule of `expect` has rejected, tagged or changed.",
        ("table", "rule"),
        _failed_rules,
    ),
    (
        "calve_superseded_events",
        "Events for which the index already had the same or a newer version.",
        ("table",),
        lambda r: [([name], table.superseded) for name, table in r.tables.items() if table.superseded],
    ),
    (
        "calve_late_events",
        "Events that came after their table was complete through their time; they are written all the same.",
        ("table",),
        lambda r: [([name], table.late_events) for name, table in r.tables.items() if table.valid_through],
    ),
    (
        "calve_committed_rows",
        "Rows visible in the table.",
        ("table",),
        lambda r: [([name], table.rows) for name, table in r.tables.items()],
    ),
    (
        "calve_commits",
        "Commits of the table.",
        ("table",),
        lambda r: [([name], table.commits) for name, table in r.tables.items()],
    ),
    (
        "calve_table_maintenance_rounds",
        "Rounds of maintenance that changed the table, since the process started.",
        ("table",),
        lambda r: [([name], table.maintenance_rounds) for name, table in r.tables.items()],
    ),
    (
        "calve_table_maintenance_seconds",
        "Time that the maintenance of the table took, since the process started.",
        ("table",),
        lambda r: [([name], table.maintenance_seconds) for name, table in r.tables.items()],
    ),
    (
        "calve_key_index_read_rows",
        "Rows of the table whose keys its index has read, since the process started.",
        ("table",),
        _key_index(lambda index: index.read_rows),
    ),
    (
        "calve_key_index_stale",
        "Rows that the index has found and that were deleted already, since the process started.",
        ("table",),
        _key_index(lambda index: index.stale),
    ),
    (
        "calve_key_index_rebuilt",
        "How often the index began anew because it was damaged, or of another key, since the process started.",
        ("table",),
        _key_index(lambda index: index.rebuilt),
    ),
    (
        "calve_key_index_audited_rows",
        "Rows of the table that were compared with its index, since the process started.",
        ("table",),
        _key_index(lambda index: index.audited_rows),
    ),
    (
        "calve_backpressure_seconds",
        "Time in which nothing was read because too many batches waited for a commit, since the process started.",
        (),
        _one(lambda r: r.backpressure_seconds),
    ),
    (
        "calve_step_seconds",
        "Time of a step of batches (read, decode, process, route, convert, write), of all tasks, since the process "
        "started: the slow step is where it grows.",
        ("step",),
        lambda r: [([step], seconds) for step, seconds in r.step_seconds.items()],
    ),
    (
        "calve_commit_conflicts",
        "How often another writer was faster and a commit was tried again, since the process started.",
        ("table",),
        lambda r: [([name], table.commit_conflicts) for name, table in r.tables.items()],
    ),
    (
        "calve_notifications_sent",
        "Events about tables that the receiver got, since the process started.",
        ("receiver",),
        _receivers(lambda receiver: receiver.sent),
    ),
    (
        "calve_notifications_dropped",
        "Events about tables that the receiver never gets, because too many waited for it.",
        ("receiver",),
        _receivers(lambda receiver: receiver.dropped),
    ),
    (
        "calve_otlp_pushes",
        "Pushes of the metrics to an OpenTelemetry collector (sent, failed), since the process started.",
        ("result",),
        lambda r: [(["sent"], r.otlp.sent), (["failed"], r.otlp.failed)] if r.otlp else [],
    ),
)
GAUGES: tuple[tuple[str, str, tuple[str, ...], Samples], ...] = (
    ("calve_lag_rows", "Rows that wait in the source, if known.", (), _one(_lag_rows)),
    (
        "calve_lag_partition_rows",
        "Rows that wait in a partition of Kafka.",
        ("partition",),
        lambda r: [([part], rows) for part, rows in r.lag_parts.items()],
    ),
    ("calve_lag_bytes", "Approximate bytes that wait in the source.", (), _one(lambda r: r.lag_bytes)),
    ("calve_refusing", "1 while the source refuses new events.", (), _one(lambda r: int(r.refusing != ""))),
    ("calve_staged_batches", "Batches that are durable but not committed.", (), _one(lambda r: r.staged_batches)),
    ("calve_staged_bytes", "Bytes that are durable but not committed.", (), _one(lambda r: r.staged_bytes)),
    ("calve_last_batch_seconds", "Time to write the last batch.", (), _one(lambda r: r.last_batch_seconds)),
    (
        "calve_freshness_seconds",
        "Age of the oldest event of the last commit when it became visible.",
        (),
        _one(lambda r: r.freshness_seconds),
    ),
    (
        "calve_last_commit_timestamp_seconds",
        "Time of the table's last commit.",
        ("table",),
        lambda r: [([n], t.last_commit.timestamp()) for n, t in r.tables.items() if t.last_commit],
    ),
    (
        "calve_valid_through_timestamp_seconds",
        "Time through which the table is complete (the watermark).",
        ("table",),
        lambda r: [([n], t.valid_through.timestamp()) for n, t in r.tables.items() if t.valid_through],
    ),
    (
        "calve_valid_through_lag_seconds",
        "How far the watermark of the table is behind the clock.",
        ("table",),
        lambda r: [([n], (now() - t.valid_through).total_seconds()) for n, t in r.tables.items() if t.valid_through],
    ),
    ("calve_pipeline_state", "1 for the current state of the pipeline.", ("state",), lambda r: [([r.state], 1)]),
    ("calve_pipeline_errors", "Errors that are not resolved.", (), _one(lambda r: len(r.errors))),
    (
        "calve_source_table_stopped",
        "1 for a table of the source that is not read any more, while the others go on.",
        ("table",),
        lambda r: [([name], 1) for name in r.stopped_tables],
    ),
    (
        "calve_pending_dead_letters",
        "Dead letters that wait for a replay; with an empty code those in other places than local files, once some "
        "were replayed.",
        ("table", "code"),
        _pending,
    ),
    ("calve_dead_letter_bytes", "Size of the files with dead letters.", (), _one(lambda r: r.dead_letter_bytes)),
    (
        "calve_dead_letters_full",
        "1 while the pipeline reads nothing because there is no room for more dead letters.",
        (),
        _one(lambda r: int(r.dead_letters_full)),
    ),
    (
        "calve_paused",
        "1 while the pipeline reads nothing because of `calve pause`.",
        (),
        _one(lambda r: int(r.paused)),
    ),
    (
        "calve_table_data_files",
        "Data files of the table after its last commit.",
        ("table",),
        _files(lambda files: files.data_files),
    ),
    (
        "calve_table_bytes",
        "Bytes of the table's data files and delete files after its last commit.",
        ("table",),
        _files(lambda files: files.size_bytes),
    ),
    (
        "calve_table_delete_rows",
        "Rows in the table's delete files after its last commit.",
        ("table",),
        _files(lambda files: files.delete_rows),
    ),
    (
        "calve_key_index_rows",
        "Entries of the index of the table's keys.",
        ("table",),
        _key_index(lambda index: index.rows),
    ),
    (
        "calve_key_index_bytes",
        "Size of the index of the table's keys on the local disk.",
        ("table",),
        _key_index(lambda index: index.size_bytes),
    ),
    (
        "calve_table_snapshots",
        "Snapshots that the table kept at its last commit.",
        ("table",),
        _files(lambda files: files.snapshots),
    ),
    (
        "calve_table_manifests",
        "Manifests of the table after its last commit; planning of a query reads them.",
        ("table",),
        _files(lambda files: files.manifests),
    ),
    (
        "calve_table_manifest_list_bytes",
        "Size of the list of the table's manifests, which every query reads first; from 100 manifests on.",
        ("table",),
        lambda r: [
            ([n], t.files.manifest_list_bytes) for n, t in r.tables.items() if t.files and t.files.manifest_list_bytes
        ],
    ),
    (
        "calve_table_small_files",
        "Small data files of the table (below `small_file_size`) when its maintenance last looked.",
        ("table",),
        lambda r: [([n], t.small_files) for n, t in r.tables.items()],
    ),
    (
        "calve_table_last_maintenance_timestamp_seconds",
        "Time of the table's last maintenance.",
        ("table",),
        lambda r: [
            ([n], t.files.last_maintenance.timestamp())
            for n, t in r.tables.items()
            if t.files and t.files.last_maintenance
        ],
    ),
    (
        "calve_notifications_waiting",
        "Events about tables that wait for the receiver.",
        ("receiver",),
        _receivers(lambda receiver: receiver.waiting),
    ),
    (
        "calve_table_held",
        "1 while the table is held by an error.",
        ("table",),
        lambda r: [([name], int(table.error is not None)) for name, table in r.tables.items()],
    ),
    *GATES,
)

HISTOGRAMS: tuple[tuple[str, str, tuple[float, ...], Distribution], ...] = (
    (
        "calve_commit_seconds",
        "How long commits of tables took, since the process started.",
        COMMIT_BUCKETS,
        lambda r: (r.commit_times.counts, r.commit_times.sum_seconds),
    ),
    (
        "calve_commit_conflicts_by_commit",
        "How often another writer was faster than a commit, also one that failed, since the process started.",
        TRY_BUCKETS,
        _tries(lambda r: r.commit_conflicts),
    ),
    (
        "calve_commit_retries",
        "How often a commit was tried again: another writer was faster, or an answer was lost.",
        TRY_BUCKETS,
        _tries(lambda r: r.commit_repeats),
    ),
)
