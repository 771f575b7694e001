"""The driver's side of the s3 source: plans objects that are new, each content once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

from calve.errors import PositionLostError, SettingsError
from calve.observe.log import Log
from calve.sources.file.codec import codec_of, divisible, ranges
from calve.sources.file.csv_check import HeaderCheck
from calve.sources.file.processed_files import ProcessedFiles
from calve.sources.file.storage import Found
from calve.sources.file.stream import compression_of
from calve.sources.s3.inbox import Inbox
from calve.sources.s3.listing import Listing
from calve.sources.s3.objects import S3Object, opened, remove
from calve.sources.s3.queue import Queue
from calve.sources.s3.reader import S3Reader, object_of
from calve.sources.s3.settings import S3SourceSettings
from calve.sources.source import ALONE, Backlog, Beginning, Planned, Position, SourceContext, Split
from calve.sources.try_start import try_first_event
from calve.state.folder import StateFolder

__all__ = ["PART_BYTES", "S3Source", "check", "open", "probe"]

PART_BYTES = 64 << 20
"""Larger objects are divided, if their codec allows it, so that several tasks read them."""


_REMEMBERED_NS = 30 * 86_400 * 1_000_000_000
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
    """Plans objects in the order in which they were written.

    The objects that were read are in two lists: those of uncommitted batches in the ledger, those of acknowledged
    batches in the source's folder.

    Args:
        settings: The source's options.
        folder: The folder with the list of objects that have been read.
        pipeline: The name of the pipeline, for messages.
    """

    def __init__(self, settings: S3SourceSettings, folder: StateFolder, pipeline: str) -> None:
        self.reader = S3Reader(settings)
        self._settings, self._folder, self._pipeline = settings, folder, pipeline
        self._log = Log(pipeline)
        self._headers = HeaderCheck(settings.format, pipeline)
        self._finished = ProcessedFiles(folder)
        self._finder = _finder(settings, pipeline)
        self._once, self._has_found = False, False
        self._next_forget = 0.0
        self._waiting: dict[str, S3Object] = {}
        self._taken: dict[str, int] = {}
        self._planned: dict[int, Planned] = {}

    def start(self, position: Position | None, once: bool, pending: Sequence[Planned] = ()) -> None:
        """Load the list of read objects, and find new ones; with `once`, these are all.

        Raises:
            SourceError: A bucket does not exist, or may not be listed.
            SourceUnavailableError: The store does not answer.
        """
        self._once = once
        self._taken = {file.path: file.modified for file in self._finished.load()}
        begun: dict[str, int] = {}
        for planned in pending:
            objects = _objects(planned)
            begun |= {s3_object.identity: s3_object.modified for s3_object in objects}
            self._planned[_count(planned.position) - len(objects)] = planned
        self._taken |= begun
        self._has_found = bool(self._taken)
        self._finder.start(once, begun)
        self._find()

    @property
    def nothing_found(self) -> str:
        """See `FindsFiles`; a queue may be empty."""
        scan = self._settings.scan
        if scan is None or self._has_found:
            return ""
        buckets = ", ".join(entry.bucket.bucket for entry in scan.buckets)
        return f"no object of {buckets} matches, or none has a known extension"

    def backlog(self, position: Position | None) -> Backlog:
        """Return how much waits; look for new objects when it is due."""
        self._find()
        waiting = [s3_object.size_bytes for s3_object in self._waiting.values()]
        handed_out = [planned for start, planned in list(self._planned.items()) if start >= _count(position)]
        waiting += [split.size_bytes for planned in handed_out for split in planned.splits]
        return Backlog(-1, sum(waiting) or 1) if waiting else Backlog()

    def plan(self, position: Position | None, max_bytes: int) -> Planned | None:
        """Return whole objects up to `max_bytes`, at least one.

        Raises:
            PositionLostError: Objects have been read, but the list of them is lost.
        """
        count = _count(position)
        if count in self._planned:
            return self._planned[count]
        if self._settings.scan and count > len(self._taken):
            raise PositionLostError(
                f"Objects read: {count:,}, but the list of them in {self._folder} is missing or old",
                step="read",
                target=self._pipeline,
                hint="Restore the folder; or use a new --state, and move the objects that were read away",
            )
        chosen: list[S3Object] = []
        bytes_left = max_bytes
        for s3_object in self._waiting.values():
            bytes_left -= s3_object.size_bytes
            if chosen and bytes_left < 0:
                break
            chosen.append(s3_object)
        if not chosen:
            return None
        for s3_object in chosen:
            self._headers.check(s3_object.path, partial(opened, self._settings.aws, s3_object))
        splits = [split for s3_object in chosen for split in self._split(s3_object)]
        for s3_object in chosen:
            del self._waiting[s3_object.identity]
        self._taken |= {s3_object.identity: s3_object.modified for s3_object in chosen}
        more = tuple(s3_object.path for s3_object in list(self._waiting.values())[:1])
        self._planned[count] = Planned(splits, {"objects": count + len(chosen)}, more)
        return self._planned[count]

    def begin_at(self, beginning: Beginning) -> Position:
        """Return the position of a beginning: older objects count as read from now on.

        Raises:
            SettingsError: It has offsets, which objects do not have.
            SourceUnavailableError: The store does not answer.
        """
        if beginning.offsets is not None or beginning.at == "group":
            text = "Objects have no offsets"
            hint = "Choose with --start-timestamp which of them count as read, by the time they were written"
            raise SettingsError(text, step="rebuild", target="s3", hint=hint)
        if self._settings.sqs and beginning.at != "earliest":
            text = "A queue has only new messages; objects that were read before are not known"
            raise SettingsError(text, step="rebuild", target="s3", hint="Use --from earliest, or purge the queue first")
        objects = [] if beginning.at == "earliest" else self._finder.find((), 0, once=True)
        if beginning.timestamp_ms is not None:
            objects = [s3_object for s3_object in objects if s3_object.modified < beginning.timestamp_ms * 1_000_000]
        self._finish(objects)
        return {"objects": len(objects)}

    def acknowledge(self, planned: Planned) -> None:
        """Record the objects of a committed batch as read, and delete them if it is asked for; may be repeated.

        Raises:
            SourceError: The disk or the store refused.
        """
        objects = _objects(planned)
        self._finish(objects)
        if self._settings.delete_s3_objects_on_read:
            for s3_object in objects:
                remove(self._settings.aws, s3_object)
        self._finder.acknowledge({s3_object.identity for s3_object in objects})
        self._planned.pop(_count(planned.position) - len(objects), None)

    def stop(self) -> None:
        """Stop receiving messages."""
        self._finder.stop()

    def _finish(self, objects: Sequence[S3Object]) -> None:
        self._finished.add(Found(s3_object.identity, s3_object.size_bytes, s3_object.modified) for s3_object in objects)

    def _find(self) -> None:
        self._forget()
        for s3_object in self._finder.find(self._taken.keys() | self._waiting.keys(), len(self._waiting), self._once):
            if self._settings.scan and codec_of(s3_object.key, self._settings.format) is None:
                self._taken[s3_object.identity] = s3_object.modified
                self._log.warning(f"{s3_object.path} is not read: its key has no known extension; set `codec`")
            else:
                self._waiting[s3_object.identity] = s3_object
                self._has_found = True

    def _forget(self) -> None:
        """Forget objects whose messages cannot come again: SQS keeps them for 14 days."""
        if self._settings.sqs and time.monotonic() >= self._next_forget:
            before = time.time_ns() - _REMEMBERED_NS
            self._finished.forget(before)
            begun = {s3_object.identity for planned in list(self._planned.values()) for s3_object in _objects(planned)}
            self._taken = {name: at for name, at in self._taken.items() if at >= before or name in begun}
            self._next_forget = time.monotonic() + _FORGET_SECONDS

    def _split(self, s3_object: S3Object) -> list[Split]:
        """Divide an object; the parts are the same in every plan."""
        parts = [(0, s3_object.size_bytes)]
        codec = codec_of(s3_object.key, self._settings.format)
        if s3_object.size_bytes > PART_BYTES and codec and divisible(codec, self._compression(s3_object)):
            parts = ranges(s3_object.size_bytes, PART_BYTES)
        return [Split({"object": asdict(s3_object), "start": start, "end": end}, end - start) for start, end in parts]

    def _compression(self, s3_object: S3Object) -> str:
        def magic() -> bytes:
            try:
                with opened(self._settings.aws, s3_object) as file:
                    return bytes(file.read(4))
            except OSError:
                return b""  # the reader has the same error, and reports it

        return compression_of(s3_object.key, self._settings.compression, magic)


def check(settings: S3SourceSettings) -> None:
    """Check that the queue answers; no message is received.

    Raises:
        SourceError: It does not exist, or may not be read.
        SourceUnavailableError: It does not answer.
    """
    assert settings.sqs
    Queue(settings.sqs, settings.aws).check()


def _finder(settings: S3SourceSettings, pipeline: str) -> Inbox | Listing:
    if settings.sqs:
        return Inbox(settings.sqs, settings, pipeline)
    assert settings.scan
    return Listing(settings.scan, settings.aws)


def _count(position: Position | None) -> int:
    return int((position or {}).get("objects", 0))


def _objects(planned: Planned) -> list[S3Object]:
    return [object_of(split) for split in planned.splits if split.body["start"] == 0]
