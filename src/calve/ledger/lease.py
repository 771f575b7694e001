"""The lease on a ledger of an object store: one driver at a time, however the others were stopped.

The lease and the list of valid records are one object, `head.json`, which only changes by compare-and-swap. Its driver
renews it by writing it again. A driver that waits takes it over, with the next epoch, once it has seen no change for
the time of a lease, by its own clock. Each write of the ledger ends with a swap of the head as its driver knows it, so
from the moment of the takeover on, every write of the former driver is refused by the store, whatever the clocks say
and however late the write arrives. A lost answer is no problem: a driver that finds its own epoch writes again.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from calve.errors import CalveError, OvertakenError, SettingsError, Verdict, WriteError
from calve.ledger.records import LedgerIdentity, check_identity
from calve.observe.log import Log
from calve.state.folder import StateFolder, TaggedContent
from calve.state.values import decoded, encoded

__all__ = ["HEAD", "LEASE_VARIABLE", "Holder", "Lease", "LeaseAcquisition", "LedgerHead", "WaitPolicy", "head_of"]

HEAD = "head.json"
LEASE_SECONDS = 8.0
LEASE_VARIABLE = "CALVE_LEASE_SECONDS"
_SHORTEST_SECONDS = 1.0
_RENEWALS = 4
"""Renewals in the time of a lease, so that some may fail."""
_POLL_SECONDS = 0.25
_ATTEMPTS = 5


@dataclass(frozen=True)
class WaitPolicy:
    """How a driver waits for a ledger that another one holds.

    Attributes:
        stop: Ends a wait of a standby.
        standby: Wait until the other driver is gone. Otherwise only until it is clear whether it still runs.
        log: Gets a line when the wait begins.
    """

    stop: threading.Event
    standby: bool = False
    log: Log | None = None

    def log_wait(self, holder: str) -> None:
        """Log who is waited for."""
        if self.log and self.standby:
            self.log.info(f"standby: waits for the driver of this pipeline{holder}")
        elif self.log:
            self.log.info(f"the state is held{holder}; waiting until it is clear whether that driver still runs")


class Holder(msgspec.Struct, frozen=True):
    """The driver that holds a lease; `run` is unique."""

    run: str
    pid: int
    host: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


class LedgerHead(msgspec.Struct, frozen=True):
    """The current version of a ledger on an object store.

    Attributes:
        identity: Whose ledger it is.
        epoch: Grows with each new holder.
        version: Grows with each write, so that no two versions are equal.
        lease_seconds: How long the lease lasts after a write.
        holder: The driver; None after it released the lease.
        committed: The object with the committed progress; empty: none.
        records: The objects of the uncommitted batches, by batch: the plan, and the staged record or an empty text.
    """

    identity: LedgerIdentity
    epoch: int = 1
    version: int = 1
    lease_seconds: float = 0.0
    holder: Holder | None = None
    committed: str = ""
    records: dict[int, tuple[str, str]] = {}


class Lease:
    """A held lease, renewed by a thread until `release`.

    Args:
        folder: The ledger's folder.
        head: The head with this driver as its holder.
        tag: The tag of this version.
    """

    def __init__(self, folder: StateFolder, head: LedgerHead, tag: str) -> None:
        self._folder = folder
        self._head = head
        self._tag = tag
        self._lock = threading.Lock()
        self._lost = ""
        self._confirming = threading.Lock()
        self._confirmed = float("-inf")
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew, name=f"lease-{head.identity.pipeline}", daemon=True)
        self._thread.start()

    @classmethod
    def acquire(cls, folder: StateFolder, pipeline: str, waiting: WaitPolicy | None = None) -> Lease:
        """Take the lease of a ledger, which is created if it does not exist.

        Args:
            folder: The ledger's folder.
            pipeline: The pipeline's name.
            waiting: How to wait for another holder; by default until its lease has expired.

        Raises:
            SettingsError: The ledger may not be opened.
            OvertakenError: Another driver renews the lease, or the wait was stopped.
            WriteError: The store does not answer.
        """
        return LeaseAcquisition(folder, pipeline, waiting or WaitPolicy(threading.Event())).run()

    @property
    def head(self) -> LedgerHead:
        """The head as this driver wrote it last."""
        return self._head

    def update(self, change: Callable[[LedgerHead], LedgerHead]) -> None:
        """Write a new version of the head.

        Raises:
            OvertakenError: Another driver has the lease: nothing was written.
            WriteError: The store does not answer. The version counts as not written, and the next one replaces it.
        """
        with self._lock:
            self.check()
            wanted = change(self._head)
            for _ in range(_ATTEMPTS):
                wanted, began = replace(wanted, version=wanted.version + 1), time.monotonic()
                tag = self._folder.swap(HEAD, encoded(wanted), self._tag) or self._tag_if_written(wanted)
                if tag:
                    self._head, self._tag, self._confirmed = wanted, tag, began
                    return
        raise WriteError(
            f"The lease of {self._folder} changes all the time",
            step="ledger",
            target=str(self._folder),
            hint="Check that the object store returns the ETag of each write",
        )

    def check(self) -> None:
        """Check that no other driver is known to have the lease.

        Raises:
            OvertakenError: One has.
        """
        if self._lost:
            raise OvertakenError(
                f"Another driver took over this pipeline: {self._lost}",
                step="ledger",
                target=str(self._folder),
                hint="This one was paused or could not reach the state for too long. It writes nothing any more; "
                "`calve run --standby` lets it wait for its turn",
            )

    def confirm(self, since: float) -> None:
        """Check with the store that this driver had the lease at a time; several threads may share one write.

        Args:
            since: Monotonic seconds.

        Raises:
            OvertakenError: Another driver has it.
            WriteError: The store does not answer.
        """
        with self._confirming:
            if self._confirmed < since:
                self.update(lambda head: head)

    def release(self) -> None:
        """Let the next driver in. May be called twice."""
        if self._ended.is_set():
            return
        self._ended.set()
        with contextlib.suppress(CalveError):  # then the lease expires
            self.update(lambda head: replace(head, holder=None))
        self._thread.join()

    def _tag_if_written(self, wanted: LedgerHead) -> str:
        """After a refused write: return the tag if it was written nevertheless; else note the tag of what is there."""
        stored, current = head_of(self._folder)
        if current is None:
            self._lost = "its state was removed"
        elif (current.epoch, current.holder) != (wanted.epoch, self._head.holder):
            self._lost = str(current.holder or "it has ended by now")
        self.check()
        assert stored is not None
        self._tag = stored.tag
        return stored.tag if stored.content == encoded(wanted) else ""

    def _renew(self) -> None:
        log, failed = Log(self._head.identity.pipeline), False
        while not self._ended.wait(self._head.lease_seconds / _RENEWALS):
            try:
                self.update(lambda head: head)
                failed = False
            except CalveError as error:
                if error.verdict is Verdict.STOP:
                    return  # the driver finds it by `check`
                if not failed:
                    log.warning(f"the lease cannot be renewed: {error.message}", hint=error.hint)
                failed = True


class LeaseAcquisition:
    """One wait for a lease."""

    def __init__(self, folder: StateFolder, pipeline: str, waiting: WaitPolicy) -> None:
        self._folder, self._pipeline, self._waiting = folder, pipeline, waiting
        self._me = Holder(uuid.uuid4().hex, os.getpid(), socket.gethostname())
        self._seen, self._since = "", 0.0
        self._lease_seconds = _chosen_seconds()

    def run(self) -> Lease:
        """Wait, and return the lease."""
        while True:
            if lease := self._attempt():
                return lease
            if self._waiting.stop.wait(_POLL_SECONDS):
                raise OvertakenError("The wait for the lease was stopped", step="start", target=str(self._folder))

    def _attempt(self) -> Lease | None:
        try:
            stored, head = head_of(self._folder)
            if stored is None or head is None:
                return self._create()
            check_identity(head.identity, self._pipeline, str(self._folder))
            if head.holder == self._me:
                return Lease(self._folder, head, stored.tag)  # the answer to an earlier attempt was lost
            if head.holder and self.is_alive(stored, head):
                return None
            mine = replace(
                head, epoch=head.epoch + 1, version=head.version + 1, lease_seconds=self._lease_seconds, holder=self._me
            )
            tag = self._folder.swap(HEAD, encoded(mine), stored.tag)
            return Lease(self._folder, mine, tag) if tag else None
        except CalveError as error:
            if error.verdict is not Verdict.AGAIN or not self._waiting.standby:
                raise
            self._seen = ""  # the other driver may not have reached the store either
            return None

    def _create(self) -> Lease | None:
        self._folder.check_conditions()
        identity = LedgerIdentity.of(str(uuid.uuid4()), self._pipeline)
        head = LedgerHead(identity, lease_seconds=self._lease_seconds, holder=self._me)
        tag = self._folder.create(HEAD, encoded(head))
        return Lease(self._folder, head, tag) if tag else None

    def is_alive(self, stored: TaggedContent, head: LedgerHead) -> bool:
        """Return whether the holder may still run: less than the time of a lease has passed without a change.

        Raises:
            OvertakenError: It runs, and this driver is no standby.
        """
        if stored.tag != self._seen:
            if self._seen and not self._waiting.standby:
                raise OvertakenError(
                    f"Another driver runs this pipeline: {head.holder}",
                    step="start",
                    target=str(self._folder),
                    hint="Stop that one first, wait for it with `calve run --standby`, or give this one another "
                    "`--state`",
                )
            if not self._seen:
                self._waiting.log_wait(f": {head.holder}")
            self._seen, self._since = stored.tag, time.monotonic()
        return time.monotonic() - self._since < head.lease_seconds


def _chosen_seconds() -> float:
    """Return the time of a lease, which the environment may set.

    Raises:
        SettingsError: It is no number, or too small.
    """
    text = os.environ.get(LEASE_VARIABLE, str(LEASE_SECONDS))
    with contextlib.suppress(ValueError):
        if _SHORTEST_SECONDS <= float(text) < float("inf") or LEASE_VARIABLE not in os.environ:
            return float(text)
    raise SettingsError(
        f"{LEASE_VARIABLE} is {text!r}, not a number of seconds",
        step="start",
        target=LEASE_VARIABLE,
        hint=f"Set it to {_SHORTEST_SECONDS:.0f} or more, or remove it: the default is {LEASE_SECONDS:.0f}",
    )


def head_of(folder: StateFolder) -> tuple[TaggedContent | None, LedgerHead | None]:
    """Return the current head of a ledger, and its object; None if there is no ledger.

    Raises:
        InvariantError: It is damaged.
        WriteError: The store does not answer.
    """
    stored = folder.get(HEAD)
    return (stored, decoded(f"{folder}/{HEAD}", stored.content, LedgerHead)) if stored else (None, None)
