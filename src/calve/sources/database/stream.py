"""Reads changes in a thread of its own: every change becomes durable in the log, and only then the stream moves on."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from calve.errors import CalveError, InvariantError, SourceUnavailableError, Verdict
from calve.network.backoff import delay
from calve.observe.log import Log as LogLines
from calve.sources.database import reload
from calve.sources.database.change_buffer import ChangeBuffer
from calve.sources.database.epochs import Epochs
from calve.sources.database.own_targets import OwnTargets
from calve.sources.database.stopped import stop
from calve.sources.database.stream_position import DurablePositions, Transaction
from calve.sources.database.table import DatabaseTable
from calve.sources.database.target_names import key_fault, names_fault
from calve.sources.log.log import AppendOutcome

__all__ = ["READ", "DatabaseSession", "DatabaseStream", "StreamContext"]

READ = "read"
"""The step of errors."""
_PAUSE_SECONDS = 1.0
_LINGER_SECONDS = 0.005
"""How long changes wait for the next one, to become durable together."""
_IDLE_SECONDS = 0.2
_SETTLE_SECONDS = 1.0
"""How long the reader goes on while entries become durable, before it waits: then the server's position moves on."""


@dataclass(frozen=True)
class StreamContext:
    """What the stream reads, and where it puts it."""

    settings: Any
    pipeline: str
    buffer: ChangeBuffer
    positions: DurablePositions
    epochs: Epochs
    begun: dict[str, Any]
    own_targets: OwnTargets


class DatabaseStream(ABC):
    """The reader of the changes of one database.

    Args:
        context: What it reads, and where it puts it.
        until: Where it ends; None: when it is stopped.

    Attributes:
        failed: Why it has ended by itself; everything before is in the log.
        trouble: Why it cannot read now; it tries again.
        flushed: Everything before this position is durable here.
        reached: Whether it has ended, because it was at the end.
        condition: How far it is, for `calve status`.
    """

    def __init__(self, context: StreamContext, until: int | None) -> None:
        self._context = context
        self._settings = context.settings
        self._lines = LogLines(context.pipeline)
        self._until = until
        self._stop = threading.Event()
        self._halts = False
        self._thread = threading.Thread(target=self._run, name="calve-changes", daemon=True)
        self.failed: CalveError | None = None
        self.trouble: CalveError | None = None
        self.flushed = 0
        self.condition = ""
        self.reached = False
        self._unreadable: deque[tuple[int, str, str]] = deque()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; may be called twice. Tables that it was to stop and did not come to are stopped here."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
        for stopped in self.unreadable():
            self._stop_now(*stopped)

    def halt(self) -> bool:
        """End the thread where a transaction ends; return whether it has ended. May be called again and again."""
        self._halts = True
        return not self._thread.is_alive()

    @property
    def has_halted(self) -> bool:
        """Whether the thread has ended because of `halt`."""
        return self._halts and not self._thread.is_alive()

    def between_transactions(self) -> None:
        """Note that no transaction is being read, and end if that is what `halt` waits for."""
        if self._halts:
            self._stop.set()

    def _run(self) -> None:
        failures = 0
        while not self._stop.is_set() and not self.reached:
            before = self.flushed
            try:
                self._read_until_cut()
            except CalveError as error:
                failures = 0 if self.flushed > before else failures
                if error.verdict is not Verdict.AGAIN:
                    self.failed = error
                    self._lines.warning(f"reading has ended, and the pipeline stops after all changes before: {error}")
                    return
                if self.trouble is None:
                    self._lines.warning(f"{error}; tries again", target=self._settings.shown)
                self.trouble = error
                self._stop.wait(delay(failures))
                failures += 1
            except Exception as error:
                self.failed = InvariantError(
                    f"reading {self._settings.shown} has ended: {type(error).__name__}: {error}", step=READ
                )
                self._lines.warning(str(self.failed))
                return

    def _read_until_cut(self) -> None:
        """Read; on return nothing is under way to the log, so `positions` tells what it has."""
        try:
            self._read()
        finally:
            self._context.buffer.clear()

    @abstractmethod
    def _read(self) -> None:
        """Read changes until `reached`, a stop, or the end of the connection."""

    def stop_table(self, oid: int, why: str, hint: str) -> None:
        """Stop a table that the load cannot read; called by the pipeline's thread.

        Args:
            oid: The table.
            why: Why.
            hint: What follows; empty: what somebody can do.
        """
        if self._thread.is_alive():
            self._unreadable.append((oid, why, hint))
        else:
            self._stop_now(oid, why, hint)

    def _stop_now(self, oid: int, why: str, hint: str) -> None:
        stop(self._context.epochs, self._context.epochs.tables[oid], why, self._lines, hint)

    def unreadable(self) -> Iterator[tuple[int, str, str]]:
        """Yield what `stop_table` was called with since the last call."""
        while self._unreadable:
            yield self._unreadable.popleft()

    def connected(self) -> None:
        """Note that the server sends changes again."""
        if self.trouble is not None:
            self._lines.info(f"reads {self._settings.shown} again")
            self.trouble = None

    def refused(self, outcome: AppendOutcome, why: str) -> None:
        """Note that the disk refuses changes, which wait on the server; ends the session when a stop is requested.

        Raises:
            SourceUnavailableError: A stop is requested.
        """
        error = SourceUnavailableError(
            f"Changes cannot be written to the state folder: {why}", step=READ, hint="They wait on the server"
        )
        if self.trouble is None:
            self._lines.warning(str(error))
        self.trouble = error
        if self._stop.wait(_PAUSE_SECONDS):
            raise error


class DatabaseSession:
    """One connection of a stream, from its start to its loss: what is the same for all databases.

    Attributes:
        transaction: The one whose changes come; None between two.
    """

    system: str
    """What the database is called."""

    def __init__(self, stream: DatabaseStream, context: StreamContext) -> None:
        self._stream = stream
        self._settings = context.settings
        self._lines = LogLines(context.pipeline)
        self._buffer, self._positions, self._epochs = context.buffer, context.positions, context.epochs
        self._load = context.begun.get("load", 0)
        self._own_targets = context.own_targets
        self.transaction: Transaction | None = None
        self._ordinal = 0
        self._settled = time.monotonic()

    @property
    def _is_idle(self) -> bool:
        return self.transaction is None and not self._buffer

    @property
    def _patience_seconds(self) -> float:
        """How long to wait for the next message."""
        return _LINGER_SECONDS if self._buffer else _IDLE_SECONDS

    def _begin(self, transaction: Transaction) -> None:
        self.transaction, self._ordinal = transaction, 0

    def _end(self) -> None:
        if self.transaction is not None:
            self._buffer.end(self.transaction)
        self.transaction = None

    def _rest(self) -> None:
        """Do what has to wait until no transaction is being read."""
        if self.transaction is None:
            self._stream.between_transactions()
        if self._is_idle:
            self._stop_unreadable()

    def _next(self, count: int = 1) -> Transaction:
        """Count changes of the transaction."""
        self._ordinal += count
        if self.transaction is None:
            raise InvariantError("a change outside of a transaction", step=READ)
        return self.transaction

    def _is_done(self, transaction: Transaction) -> bool:
        """Return whether the log has the last counted change already: after a cut the server sends changes again."""
        return (transaction.commit, self._ordinal) <= self._positions.last.order

    def _write(self) -> None:
        """Make everything durable that waits."""
        self._settled = time.monotonic()
        if self._buffer:
            self._buffer.write(self._epochs.number, self._refused)
            self._stream.trouble = None

    def _write_full(self) -> None:
        """Write a full entry; mostly more is read while it becomes durable."""
        if time.monotonic() > self._settled + _SETTLE_SECONDS:
            self._write()
        else:
            self._buffer.hand_over(self._epochs.number, self._refused)

    def _refused(self, outcome: AppendOutcome, why: str) -> None:
        self._stream.refused(outcome, why)

    def _stop_unreadable(self) -> None:
        """Stop the tables that the load could not read."""
        for oid, why, hint in self._stream.unreadable():
            self._stop_table(self._epochs.tables[oid], why, hint)

    def _stop_table(self, table: DatabaseTable, why: str, hint: str = "") -> None:
        """Read no more changes of a table; everything before is durable first, and all other tables go on."""
        if table.stopped:
            return
        self._write()
        stop(self._epochs, table, why, self._lines, hint)
        self._buffer.begin_epoch()

    def _set_table(self, table: DatabaseTable, former: DatabaseTable | None) -> bool:
        """Begin an epoch with a table that is new or changed; return whether its changes are read."""
        table = self._epochs.completed(table)
        if fault := key_fault(table):
            self._stop_table(table, f"it {fault}")
            return False
        if fault := names_fault(table):
            self._stop_table(former or table, f"{fault}; rename it, and load the table again")
            return False
        if conflict := self._own_targets.conflict(table, [] if former else self._epochs.tables.values()):
            self._stop_table(table, conflict)
            return False
        if former is None:
            self._lines.warning(
                f"{table.full_name} is new: its changes are read from now on",
                table=table.full_name,
                hint=f"If it has older rows, load them: calve source reload <configuration> {table.full_name}",
            )
        self._write()
        self._epochs.add([table])
        self._buffer.begin_epoch()
        return True

    def _goes_on(self, table: DatabaseTable, why: str) -> bool:
        """Follow `on_unlogged_change`: return whether a table is still read; may be repeated."""
        policy = self._settings.on_unlogged_change
        if policy == "ignore":
            self._lines.warning(
                f"{table.full_name} is not what it is in {self.system}, because its log does not have this: {why}",
                table=table.full_name,
                hint=f"To have it right, load it again: calve source reload <configuration> {table.full_name}",
            )
            return True
        self._read_again(table, f"{why}; the log does not have that")
        return False

    def _read_again(self, table: DatabaseTable, why: str, is_other: bool = False, policy: str = "") -> None:
        """Stop a table until it is read again, if a policy says so; may be repeated.

        Args:
            table: The table.
            why: Why.
            is_other: Whether another table has its name by now, which is read even if this one was stopped before.
            policy: The policy; empty: `on_unlogged_change`.
        """
        if self._epochs.tables.get(table.oid, table).stopped and not is_other:
            return
        policy = reload.policy_for(table, policy or self._settings.on_unlogged_change, why)
        self._stop_table(table, why, reload.read_again(policy, self._positions.files, self._load, table.full_name))

    def _truncated(self, tables: list[DatabaseTable]) -> None:
        """Follow `on_truncate`."""
        for table in tables:
            why = "it was truncated, and the rows in the target were not removed"
            if not self._keeps_rows(table, why):
                self._read_again(table, why, policy=self._settings.on_truncate)

    def _lose_rows(self, table: DatabaseTable, why: str) -> None:
        """Follow a table that has lost some of its rows."""
        if not self._keeps_rows(table, why):
            self._read_again(table, why)

    def _keeps_rows(self, table: DatabaseTable, why: str) -> bool:
        """Return whether rows stay that the database does not have, because `on_truncate` says so."""
        is_ignored: bool = self._settings.on_truncate == "ignore"
        if is_ignored:
            self._lines.warning(f"{table.full_name} keeps rows that {self.system} does not have: {why}")
        return is_ignored
