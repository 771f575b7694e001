"""Finds objects by the notifications of a queue, and keeps their messages until the events are committed."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

import obstore
from obstore.exceptions import BaseError

from calve.errors import CalveError
from calve.observe.log import Log
from calve.sources.s3.notifications import UNKNOWN_SIZE, created
from calve.sources.s3.objects import S3Object, store_of
from calve.sources.s3.queue import LONGEST_HIDDEN_SECONDS, Message, Queue
from calve.sources.s3.settings import S3SourceSettings, Sqs

__all__ = ["Inbox"]

_WAITING_OBJECTS = 10_000
"""With more objects that are not planned, no more messages are received."""
_DRAIN_SECONDS = 1
_FRUITLESS = 10
"""With `once`: so many answers in a row with messages that are known end the search."""
_ROUNDS = 4
"""Messages are hidden for at least the time of so many rounds over all of them."""


@dataclass
class _Held:
    """A message that is kept until its objects are committed.

    Attributes:
        message: With the handle of its last delivery.
        until: When it becomes visible again unless it is extended, in monotonic seconds.
        left: The identities of its objects that are not committed.
    """

    message: Message
    until: float
    left: set[str] = field(default_factory=set)


class Inbox:
    """The messages of a queue. A thread receives them, and hides those that are kept.

    Args:
        sqs: The queue.
        settings: The source's options.
        pipeline: The name of the pipeline, for messages.
    """

    def __init__(self, sqs: Sqs, settings: S3SourceSettings, pipeline: str) -> None:
        self._sqs, self._settings, self._log = sqs, settings, Log(pipeline)
        self._queue = Queue(sqs, settings.aws)
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._held: dict[str, _Held] = {}
        self._arrived: list[tuple[_Held, list[S3Object]]] = []
        self._open: set[str] = set()
        self._warned: set[str] = set()
        self._failed: CalveError | None = None
        self._is_full = self._is_drained = False
        self._hidden_seconds = sqs.visibility_timeout.total_seconds()
        self._thread: threading.Thread | None = None

    def start(self, once: bool, pending: Iterable[str]) -> None:
        """Begin to receive, except with `once`; may be repeated.

        Args:
            once: Whether `find` receives what is there.
            pending: The identities of the objects of uncommitted batches.

        Raises:
            SourceError: The queue does not exist, or may not be read.
            SourceUnavailableError: It does not answer.
        """
        self._queue.check()
        self._open |= set(pending)
        if self._thread is not None:
            return  # a start that failed is tried again
        self._thread = threading.Thread(target=self._run, args=(not once,), daemon=True, name="calve-sqs")
        self._thread.start()

    def stop(self) -> None:
        """Stop receiving. May be called twice."""
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(2)

    def find(self, earlier: Collection[str], waiting: int, once: bool) -> list[S3Object]:
        """Return the objects of messages that have arrived.

        Args:
            earlier: The identities of those that are known; the other messages about them are kept, too.
            waiting: How many of them are not planned.
            once: Whether to receive until the queue is empty.

        Raises:
            SourceError: The queue refuses.
            SourceUnavailableError: It does not answer.
        """
        self._is_full = waiting >= _WAITING_OBJECTS
        fruitless = 0
        while once and not self._is_drained and not self._is_full and not self._stop.is_set():
            fresh = self._receive(_DRAIN_SECONDS)
            fruitless = 0 if fresh else fruitless + 1
            self._is_drained = fresh is None or fruitless == _FRUITLESS
            if fruitless == _FRUITLESS:
                self._log.warning("The queue gives the same messages again and again; run once more for the others")
            self._is_full = len(self._arrived) >= _WAITING_OBJECTS
        if self._failed is not None:
            failed, self._failed = self._failed, None
            raise failed
        with self._lock:
            arrived, self._arrived = self._arrived, []
            new_objects: dict[str, S3Object] = {}
            for held, objects in arrived:
                new = {s3_object.identity: s3_object for s3_object in objects if s3_object.identity not in earlier}
                new_objects |= {
                    identity: s3_object for identity, s3_object in new.items() if identity not in self._open
                }
                self._open |= new.keys()
                held.left = {s3_object.identity for s3_object in objects} & self._open
            done = self._done()
        try:
            self._delete(done)
        except CalveError as error:
            self._failed = error  # the objects are returned first, because they are not found again
        return list(new_objects.values())

    def acknowledge(self, identities: Collection[str]) -> None:
        """Delete the messages all of whose objects are committed; may be repeated.

        Raises:
            SourceError: The queue refuses.
            SourceUnavailableError: It does not answer.
        """
        with self._lock:
            self._open -= set(identities)
            for held in self._held.values():
                held.left -= set(identities)
            done = self._done()
        self._delete(done)

    def _done(self) -> list[_Held]:
        """Return the messages without objects that are not committed; the lock is held."""
        fresh = {held.message.id for held, _ in self._arrived}
        return [held for name, held in self._held.items() if not held.left and name not in fresh]

    def _delete(self, done: list[_Held]) -> None:
        self._queue.delete([held.message for held in done])
        with self._lock:
            for held in done:
                self._held.pop(held.message.id, None)

    def _run(self, receives: bool) -> None:
        seconds = self._hidden_seconds
        wait = min(self._sqs.wait_time.total_seconds(), seconds / 3)
        while not self._stop.is_set():
            try:
                self._extend()
                if not receives or self._is_full:
                    self._stop.wait(min(1, seconds / 3))
                elif self._receive(wait) is None or self._sqs.poll_delay:
                    self._stop.wait(self._sqs.poll_delay.total_seconds() or 0.05)
            except CalveError as error:
                self._failed = error
                self._stop.wait(1)

    def _extend(self) -> None:
        """Hide the messages that would soon be visible; for longer if there are so many that this takes long."""
        began, seconds = time.monotonic(), self._hidden_seconds
        with self._lock:
            due = [held for held in self._held.values() if held.until - began < seconds / 2]
        self._queue.extend([held.message for held in due], seconds)
        for held in due:
            held.until = began + seconds
        self._hidden_seconds = min(max(seconds, _ROUNDS * (time.monotonic() - began)), LONGEST_HIDDEN_SECONDS)

    def _receive(self, wait_seconds: float) -> int | None:
        """Receive some messages; return how many of them are new, or None if the queue has none."""
        began, seconds, new = time.monotonic(), self._hidden_seconds, 0
        messages = self._queue.receive(wait_seconds, seconds)
        for message in messages:
            with self._lock:
                if (former := self._held.get(message.id)) is not None:
                    former.message, former.until = message, began + seconds
                    continue
            new += message.id not in self._warned
            objects = self._objects(message)
            if objects is not None:
                held = _Held(message, began + seconds)
                with self._lock:
                    self._held[message.id] = held
                    self._arrived.append((held, objects))
        return new if messages else None

    def _objects(self, message: Message) -> list[S3Object] | None:
        """Return the objects of a message; None if it is left in the queue."""
        try:
            return [self._sized(s3_object) for s3_object in created(message.body, time.time_ns())]
        except ValueError as error:
            deletes = self._settings.on_error == "delete_messages"
            if message.id not in self._warned:
                what = "is deleted" if deletes else "stays in the queue (`on_error: retain_messages`)"
                self._log.warning(f"The message {message.id} {what}: {error}")
                self._warned.add(message.id)
            return [] if deletes else None

    def _sized(self, s3_object: S3Object) -> S3Object:
        """Return an object with its size and ETag; one that is gone has a byte, so that its reader says so."""
        if s3_object.size_bytes != UNKNOWN_SIZE:
            return s3_object
        try:
            head = obstore.head(store_of(self._settings.aws, s3_object.bucket), s3_object.key)
        except (BaseError, OSError):
            return replace(s3_object, size_bytes=1)
        return replace(s3_object, size_bytes=head["size"], etag=s3_object.etag or str(head["e_tag"] or "").strip('"'))
