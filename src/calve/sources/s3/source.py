"""The driver's side of the s3 source: plans objects that are new, each content once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from calve.errors import SettingsError
from calve.observe.log import Log
from calve.sources.file.codec import why_unread
from calve.sources.file.storage import FoundFile
from calve.sources.file.whole_files import FileKind, WholeFiles
from calve.sources.s3.inbox import Inbox
from calve.sources.s3.listing import ObjectListing
from calve.sources.s3.objects import S3Object, opened, remove
from calve.sources.s3.queue import Queue
from calve.sources.s3.reader import S3Reader, object_of
from calve.sources.s3.settings import S3SourceSettings
from calve.sources.source import ALONE, Backlog, Planned, Position, SourceContext, StartPosition
from calve.sources.try_start import try_first_event
from calve.state.folder import StateFolder

__all__ = ["S3Source", "check", "open", "probe"]

_REMEMBERED_NS = 30 * 86_400 * 1_000_000_000
"""SQS keeps messages for 14 days."""
_FORGET_SECONDS = 3600.0


def open(settings: S3SourceSettings, folder: StateFolder, pipeline: str, context: SourceContext = ALONE) -> S3Source:
    """Create the source of a pipeline; it reads nothing before `start`."""
    return S3Source(settings, folder, pipeline)


def probe(settings: S3SourceSettings, folder: StateFolder, pipeline: str, context: SourceContext) -> None:
    """Check that the queue answers, or read the start of the first object of the buckets.

    Raises:
        SourceError: Something is not there, or cannot be read.
        SourceUnavailableError: Something does not answer.
    """
    if settings.sqs:
        check(settings)
    else:
        try_first_event(open(settings, folder, pipeline))


class S3Source:
    """Plans objects in the order in which they were written (see `WholeFiles`).

    Args:
        settings: The source's options.
        folder: The folder with the list of objects that have been read.
        pipeline: The name of the pipeline, for messages.
    """

    def __init__(self, settings: S3SourceSettings, folder: StateFolder, pipeline: str) -> None:
        self.reader = S3Reader(settings)
        self._settings, self._log = settings, Log(pipeline)
        kind = FileKind("s3", "objects", _entry, partial(opened, settings.aws), _body, object_of)
        self._objects = WholeFiles(kind, settings.format, folder, pipeline)
        self._finder = _finder(settings, pipeline)
        self._once, self._has_found = False, False
        self._next_forget = 0.0
        self._waiting: dict[str, S3Object] = {}

    def start(self, position: Position | None, once: bool, pending: Sequence[Planned] = ()) -> None:
        """Load the list of read objects, and find new ones; with `once`, these are all.

        Raises:
            SourceError: A bucket does not exist, or may not be listed.
            SourceUnavailableError: The store does not answer.
        """
        self._once = once
        under_way = self._objects.load(pending)
        self._has_found = bool(self._objects.read) and self._settings.delete_s3_objects_on_read
        self._finder.start(once, [s3_object.identity for s3_object in under_way])
        self._find()

    @property
    def nothing_found(self) -> str:
        """See `FindsFiles`; a queue may be empty."""
        scan = self._settings.scan
        if scan is None or self._has_found or (isinstance(self._finder, ObjectListing) and self._finder.has_known):
            return ""
        buckets = ", ".join(entry.bucket.bucket for entry in scan.buckets)
        return f"no object of {buckets} matches, or none has a known extension"

    def backlog(self, position: Position | None) -> Backlog:
        """Return how much waits; look for new objects when it is due."""
        self._find()
        return self._objects.backlog(position, self._waiting.values())

    def plan(self, position: Position | None, max_bytes: int) -> Planned | None:
        """Return whole objects up to `max_bytes`, at least one.

        Raises:
            PositionLostError: Objects have been read, but the list of them is lost.
        """
        planned = self._objects.plan(position, lambda: self._ready(position), max_bytes)
        read = self._objects.read
        self._waiting = {name: s3_object for name, s3_object in self._waiting.items() if name not in read}
        return planned

    def begin_at(self, beginning: StartPosition) -> Position:
        """Return the position of a beginning: older objects count as read from now on.

        Raises:
            SettingsError: It has offsets, which objects do not have.
            SourceUnavailableError: The store does not answer.
        """
        return self._objects.begin_at(beginning, self._listed)

    def acknowledge(self, planned: Planned) -> None:
        """Record the objects of a committed batch as read, and delete them if it is asked for; may be repeated.

        Raises:
            WriteError: The disk or the store refused.
            SourceUnavailableError: An object cannot be deleted.
        """
        objects = self._objects.files(planned)
        self._objects.acknowledge(planned)
        if self._settings.delete_s3_objects_on_read:
            for s3_object in objects:
                remove(self._settings.aws, s3_object)
        self._finder.acknowledge({s3_object.identity for s3_object in objects})

    def stop(self) -> None:
        """Stop receiving messages."""
        self._finder.stop()

    def _listed(self) -> list[S3Object]:
        if self._settings.sqs:
            text = "A queue has only new messages; objects that were read before are not known"
            raise SettingsError(text, step="rebuild", target="s3", hint="Use --from earliest, or purge the queue first")
        return self._finder.find((), 0, once=True)

    def _ready(self, position: Position | None) -> list[S3Object]:
        if self._settings.scan:
            self._objects.require_list(position)
        return list(self._waiting.values())

    def _find(self) -> None:
        if self._settings.sqs and time.monotonic() >= self._next_forget:  # messages of older objects cannot come again
            self._objects.forget(time.time_ns() - _REMEMBERED_NS)
            self._next_forget = time.monotonic() + _FORGET_SECONDS
        earlier = self._objects.read.keys() | self._waiting.keys()
        for s3_object in self._finder.find(earlier, len(self._waiting), self._once):
            if self._settings.scan and (why := why_unread(s3_object.key, self._settings.format)):
                self._objects.skip([s3_object])
                self._log.warning(f"{s3_object.path} is not read: {why}")
            else:
                self._waiting[s3_object.identity] = s3_object
                self._has_found = True


def check(settings: S3SourceSettings) -> None:
    """Check that the queue answers; no message is received.

    Raises:
        SourceError: It does not exist, or may not be read.
        SourceUnavailableError: It does not answer.
    """
    assert settings.sqs
    Queue(settings.sqs, settings.aws).check()


def _finder(settings: S3SourceSettings, pipeline: str) -> Inbox | ObjectListing:
    if settings.sqs:
        return Inbox(settings.sqs, settings, pipeline)
    assert settings.scan
    return ObjectListing(settings.scan, settings.aws)


def _entry(s3_object: S3Object) -> FoundFile:
    return FoundFile(s3_object.identity, s3_object.size_bytes, s3_object.modified)


def _body(s3_object: S3Object, start: int, end: int) -> dict[str, Any]:
    return {"object": asdict(s3_object), "start": start, "end": end}
