"""Says what happens to the tables of a pipeline to the receivers of `notify`; without receivers it does nothing.

Every event follows from what the ledger has: after a kill the same batches are committed again, and make the same
events with the same ids.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from calve.acknowledge.periods import completed, first_period, unit_of
from calve.acknowledge.watermark import EventTime, to_datetime
from calve.commit.publish import PublishOutcome
from calve.ledger.ledger import Ledger
from calve.notify.event import CloudEvent
from calve.notify.lineage import Lineage
from calve.notify.outbox import Outbox
from calve.notify.receivers import open_receiver
from calve.notify.sender import Sender, Subscription
from calve.observe.humanize import many
from calve.observe.log import Log
from calve.observe.status import PipelineStatus
from calve.pipeline.tables import PipelineTables
from calve.record.staged import StagedBatch
from calve.record.target import BranchRef
from calve.record.written import Entries
from calve.settings import PipelineSettings
from calve.settings.notify import EventType
from calve.state.folder import StateFolder
from calve.state.values import encoded, read
from calve.table.loaded import Table

__all__ = ["Announcer", "subscriptions"]

_SCHEMAS = "schemas.json"
_FINISH_SECONDS = 5.0
"""How long the end of a run waits for receivers; what is left is sent by the next run."""


def subscriptions(settings: PipelineSettings) -> list[Subscription]:
    """Return the receivers of a pipeline and of its sinks."""
    own = [Subscription(receiver) for receiver in settings.notify]
    return own + [
        Subscription(receiver, frozenset({number}))
        for number, sink in enumerate(settings.sinks)
        for receiver in sink.notify
    ]


class Announcer:
    """Turns what happens in one pipeline into events, and owns their senders; for any thread after `open`.

    Args:
        lineage: The pipeline, and what is known of its source; gets its tables.
        receivers: Who gets the events.
        folder: `<state>/<pipeline>`.
        tables: The tables of the pipeline.
    """

    def __init__(
        self, lineage: Lineage, receivers: Sequence[Subscription], folder: StateFolder, tables: PipelineTables
    ) -> None:
        self._pipeline = pipeline = lineage.pipeline
        self._lineage = lineage
        self._receivers = receivers
        self._folder = folder / "notify"
        self._tables = tables
        self._log = Log(pipeline)
        self._lock = threading.Lock()
        self._outbox: Outbox | None = None
        self._senders: list[Sender] = []
        self._state = ""
        self._schemas: dict[str, int] = {}
        self._has_new_schemas = False
        self._through: dict[BranchRef, int] = {}

    def open(self, ledger: Ledger, status: PipelineStatus) -> None:
        """Read what waits in the state, and begin to send it.

        Raises:
            CalveError: The state cannot be read or written.
        """
        if not self._receivers or self._outbox is not None:
            return
        self._state = ledger.state_id[:8]
        self._schemas = read(self._folder_made(), _SCHEMAS) or {}
        self._through = {
            BranchRef(*target): through for *target, _, through in ledger.committed.totals.event_times if through
        }
        self._outbox = outbox = Outbox(self._folder / "events", [receiver.key for receiver in self._receivers])
        self._senders = [
            Sender(receiver, open_receiver(receiver.settings, self._lineage), outbox, status.notified, self._log)
            for receiver in self._receivers
        ]
        for sender in self._senders:
            sender.start()

    @property
    def is_open(self) -> bool:
        """Whether anybody gets events."""
        return self._outbox is not None

    def committed(
        self,
        target: BranchRef,
        entries: Mapping[int, Entries],
        snapshot_id: int | None,
        summary: Mapping[str, str],
        publication: PublishOutcome | None = None,
    ) -> None:
        """Say that a table has batches.

        Args:
            target: The table.
            entries: The staged files of these batches.
            snapshot_id: The snapshot with them; None: it is not known any more.
            summary: The summary of the snapshot.
            publication: What readers of `main` see of them; None: the table has no gate, or that is not known any more.
        """
        if not entries or self._outbox is None:
            return
        files = [entry for waiting in entries.values() for entry in waiting]
        data = {
            **self._named(target),
            "snapshot_id": None if snapshot_id is None else str(snapshot_id),
            "batches": [min(entries), max(entries)],
            "rows": sum(entry.rows for entry in files),
            "bytes": sum(entry.bytes for entry in files),
            "files": sum(len(entry.files) for entry in files),
            "offsets": msgspec.json.decode(summary["calve.offsets"]),
            "max_event_time": summary.get("calve.max-event-time"),
            "valid_through": summary.get("calve.valid-through"),
            **(_published(publication) if publication else {}),
        }
        self._say("table.committed", f"commit/{_path(target)}/{max(entries)}", data, target)

    def advanced(
        self, target: BranchRef, table: Table | None, entries: Mapping[int, Entries], time_of_table: EventTime | None
    ) -> None:
        """Say which partitions of a table are complete after a commit, and whether its columns have changed.

        Args:
            target: The table.
            table: Its state after the commit; None: it is loaded.
            entries: The staged files of the commit.
            time_of_table: How far it is complete.
        """
        if self._outbox is None:
            return
        loaded = table or self._tables.catalogs[target.catalog].load(target.table)
        if loaded is None:
            return
        self._lineage.tables[self._tables.catalogs[target.catalog].name, target.table] = loaded
        self._compare_schema(target, loaded)
        through = time_of_table[1] if time_of_table else None
        before = self._through.get(target)
        if through is None or (before is not None and through <= before):
            return
        column = self._tables.completeness(target).event_time
        after = to_datetime(before) if before is not None else first_period(loaded, column, _partitions(entries))
        for period in completed(unit_of(loaded, column), after, through):
            data = {
                **self._named(target),
                "partition": period.name,
                "unit": period.unit,
                "start": _iso(period.start.isoformat()),
                "end": _iso(period.end.isoformat()),
                "valid_through": _iso(to_datetime(through).isoformat()),
            }
            self._say("partition.complete", f"partition/{_path(target)}/{period.name}", data, target)
        self._through[target] = through

    def _compare_schema(self, target: BranchRef, table: Table) -> None:
        path, schema = _path(target), table.schema
        with self._lock:
            before = self._schemas.get(path)
            self._schemas[path] = schema.schema_id
            self._has_new_schemas |= before != schema.schema_id
        if before not in (None, schema.schema_id):
            columns = [{"name": name, "type": str(schema.find_type(name))} for name in schema.column_names]
            data = {
                **self._named(target),
                "schema_id": schema.schema_id,
                "previous_schema_id": before,
                "columns": columns,
            }
            self._say("schema.changed", f"schema/{path}/{schema.schema_id}", data, target)

    def held(self, target: BranchRef, batch: int, reason: str, hint: str) -> None:
        """Say that a table is not committed, or not published, until somebody helps; once until it is.

        Args:
            target: The table.
            batch: The first batch that is held.
            reason: Why.
            hint: What helps.
        """
        if self._outbox is None:
            return
        data = {**self._named(target), "batch": batch, "reason": reason, "hint": hint}
        self._say("table.held", f"held/{_path(target)}/{batch}", data, target)

    def rejected(self, batch: int, rejects: Mapping[str, Mapping[str, int]], at: str = "") -> None:
        """Say how many events of a batch are dead letters, by table and code; `at`: which step has rejected them."""
        if self._outbox is None:
            return
        for table, codes in rejects.items():
            data = {"pipeline": self._pipeline, "table": table or None, "batch": batch, "codes": dict(codes)}
            event_id = f"{self._state}/rejects/{table}/{batch}{at}"
            sinks = self._tables.sinks_named(table)
            self._outbox.add(CloudEvent.of(self._pipeline, "rejects", event_id, data, table, sinks))

    def completed(self, records: Sequence[StagedBatch]) -> None:
        """Say that batches are committed to all of their tables."""
        if self._outbox is None or not records:
            return
        rows: dict[str, int] = {}
        for entry in (entry for record in records for entry in record.tables):
            rows[entry.table] = rows.get(entry.table, 0) + entry.rows
        last = records[-1]
        data = {
            "pipeline": self._pipeline,
            "batches": [records[0].batch, last.batch],
            "events": sum(record.events for record in records),
            "tables": rows,
            "offsets": last.position,
        }
        event_id = f"{self._state}/complete/{last.batch}"
        self._outbox.add(
            CloudEvent.of(self._pipeline, "commit.complete", event_id, data, sinks=self._tables.sinks_named(""))
        )

    def keep(self, batch: int) -> None:
        """Make the events so far durable, before the ledger forgets a batch; `batch` is the last staged one.

        Raises:
            WriteError: The state cannot be written; repeat the call.
        """
        if self._outbox is None:
            return
        self._outbox.keep(batch)
        with self._lock:
            schemas, is_new, self._has_new_schemas = dict(self._schemas), self._has_new_schemas, False
        if is_new:
            self._folder.put(_SCHEMAS, encoded(schemas))

    def forget(self, batch: int) -> None:
        """Note that the ledger has forgotten the batches up to this one.

        Raises:
            WriteError: The state cannot be written; repeat the call.
        """
        if self._outbox is not None:
            self._outbox.forget(batch)

    def close(self, is_failed: bool = False) -> None:
        """Wait until the receivers have everything, for some seconds; after a failure not at all."""
        deadline = time.monotonic() + (0.0 if is_failed else _FINISH_SECONDS)
        unsent = max((sender.finish(deadline, is_failed) for sender in self._senders), default=0)
        if unsent:
            self._log.warning(f"{many(unsent, 'event')} of notify were not sent; they are kept for the next run")

    def _named(self, target: BranchRef) -> dict[str, Any]:
        return {"catalog": self._tables.catalogs[target.catalog].name, "table": target.table, "branch": target.branch}

    def _say(self, kind: EventType, what: str, data: dict[str, Any], target: BranchRef) -> None:
        if self._outbox is not None:
            sinks = sorted(sink for sink, _ in self._tables.sinks_of(target))
            whole = {"pipeline": self._pipeline, **data}
            self._outbox.add(CloudEvent.of(self._pipeline, kind, f"{self._state}/{what}", whole, target.table, sinks))

    def _folder_made(self) -> StateFolder:
        self._folder.make()
        (self._folder / "events").make()
        return self._folder


def _published(publication: PublishOutcome) -> dict[str, Any]:
    """Return what `main` has of a branch, and what waits there."""
    main = publication.published
    return {
        "published": {
            "snapshot_id": None if main is None else str(main),
            "waiting_commits": publication.commits,
            "waiting_rows": publication.rows,
            "reason": publication.reason,
        }
    }


def _path(target: BranchRef) -> str:
    branch = "" if target.branch == "main" else f"@{target.branch}"
    return f"{target.catalog}/{target.table}{branch}"


def _partitions(entries: Mapping[int, Entries]) -> list[list[Any]]:
    files = [file for waiting in entries.values() for entry in waiting for file in entry.files]
    return [file.partition for file in files if file.is_data]


def _iso(text: str) -> str:
    return text.replace("+00:00", "Z")
