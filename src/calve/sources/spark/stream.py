"""A stream of Spark as a source: each of its batches is kept in the state, and is then a batch of the pipeline.

Spark waits with a batch until the ledger has it; only then its checkpoint says that the batch is done. After a crash
Spark offers its last batch again: if the ledger has it, it is let go without a look at its rows.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from calve.engine import session
from calve.engine.engine import Engine
from calve.engine.java.compiled import java_class
from calve.engine.java.errors import JAVA_ERRORS
from calve.errors import PositionLostError, SettingsError, SourceError, SourceUnavailableError
from calve.observe.log import Log
from calve.sources.source import Backlog, Planned, Position
from calve.sources.spark.checkpoint import Checkpoint, mismatch
from calve.sources.spark.formats import failure, java_frame
from calve.sources.spark.frames import Frames
from calve.sources.spark.reader import FrameReader
from calve.sources.spark.settings import SparkSettings
from calve.state.clients import file_io_at
from calve.state.folder import StateFolder

__all__ = ["SparkStream"]

_WAIT_MILLIS = 100
_NO_BATCH = -1
_STOP_TIMEOUT = "30s"
"""How long a stream may take to end; by default Spark waits forever for a connector that hangs."""


class SparkStream:
    """Reads a stream of Spark.

    Args:
        settings: The source's settings.
        folder: `<state>/<pipeline>/spark`.
        pipeline: Its name.
    """

    def __init__(self, settings: SparkSettings, folder: StateFolder, pipeline: str) -> None:
        storage = file_io_at(folder.location)
        self.reader = FrameReader((folder / "frames").absolute().location, storage, settings.format or "")
        self._frames = Frames(folder / "frames", storage)
        self._settings, self._folder, self._pipeline = settings, folder, pipeline
        self._once = False
        self._run: _StreamRun | None = None
        self._planned: Planned | None = None

    def start(self, position: Position | None, once: bool, pending: Sequence[Planned] = ()) -> None:
        """Start the stream where the ledger is; with `once` it ends with what is there now.

        Raises:
            PositionLostError: Its checkpoint and the state do not belong together.
            SettingsError: The state is on an object store, and there is no place for the checkpoint.
            SourceError: Spark cannot read it.
        """
        self._frames.keep_only(_frame_names(pending))
        self._once = once
        self._run = self._begin(position)
        if once:
            self._run.wait()  # Spark has fixed the end when it offers the first batch

    def backlog(self, position: Position | None) -> Backlog:
        """Return whether a batch waits; with `once` wait for it.

        Raises:
            SourceError: The stream has failed; the next call starts it again.
        """
        return Backlog() if self._offered(position, 0) == _NO_BATCH else Backlog(-1, 1)

    def plan(self, position: Position | None, max_bytes: int) -> Planned | None:
        """Compute and keep the rows of the next batch of the stream; may be repeated.

        Raises:
            SourceError: Spark cannot compute them.
        """
        epoch = self._offered(position, _WAIT_MILLIS)
        if epoch == _NO_BATCH or self._run is None:
            return None
        if self._planned is None:
            splits = self._run.keep(self._frames, f"b-{epoch}-{uuid.uuid4().hex[:8]}")
            self._planned = Planned(splits, {"query": self._run.query, "epoch": epoch})
        return self._planned

    def acknowledge(self, planned: Planned) -> None:
        """Remove the rows of a committed batch."""
        self._frames.remove(_frame_names([planned]))

    def stop(self) -> None:
        """End the stream; a batch that the ledger has not comes again in the next run."""
        if self._run is not None:
            self._run.stop()

    def _offered(self, position: Position | None, wait_millis: int) -> int:
        """Return the number of the batch that Spark holds, after letting go what the ledger has; -1: none."""
        if self._run is None:
            self._run = self._begin(position)
        if self._planned is not None and self._planned.position == position:
            self._run.release(self._planned.position["epoch"])
            self._planned = None
        try:
            return self._run.wait() if self._once else self._run.next(wait_millis)
        except SourceError:
            self._run, self._planned = None, None
            raise

    def _begin(self, position: Position | None) -> _StreamRun:
        engine = session.start()
        checkpoint = Checkpoint(engine, self._location())
        try:
            state = checkpoint.read()
        except JAVA_ERRORS as error:
            raise failure(error, self._settings) from error
        problem = mismatch(state, position)
        if problem is not None:
            self._lost(*problem, checkpoint.location)
        last = position["epoch"] if position and problem is None else _NO_BATCH
        return _StreamRun(engine, self._settings, checkpoint, last, self._once)

    def _location(self) -> str:
        """Return the folder of the checkpoint.

        Raises:
            SettingsError: None is set, and Spark does not write into the state.
        """
        folder = (self._folder / "checkpoint").absolute()
        chosen = self._settings.checkpoint or folder.location
        if self._settings.checkpoint is None and folder.is_shared:
            message = f"The state of {self._pipeline} is on an object store, where Calve does not let Spark write"
            hint = "Set `checkpoint` of the source, e.g. s3a://bucket/checkpoint, and hadoop-aws in `packages`"
            raise SettingsError(message, step="start", target=self._pipeline, hint=hint)
        if self._settings.checkpoint is None:
            folder.make()  # Spark would let others read it
        return chosen if ":/" in chosen else f"file:{Path(chosen).expanduser().absolute()}"

    def _lost(self, problem: str, hint: str, location: str) -> None:
        """Raise the error, or log it if the settings accept that rows come twice or not at all.

        Raises:
            PositionLostError: They do not.
        """
        message = f"{self._pipeline} cannot go on: {problem} ({location})"
        if self._settings.on_lost_position == "fail":
            hint += ". Set on_lost_position: reload on the source to go on; rows can then come twice, or be missing"
            raise PositionLostError(message, step="read", target=self._pipeline, hint=hint)
        Log(self._pipeline).warning(f"{message}; it goes on all the same, as on_lost_position says")


class _StreamRun:
    """One run of the stream in the JVM.

    Args:
        engine: Spark.
        settings: What it reads.
        checkpoint: Where it goes on.
        last: The batch that the ledger has; -1: whatever comes is new.
        once: Whether it ends with what is there now.
    """

    def __init__(self, engine: Engine, settings: SparkSettings, checkpoint: Checkpoint, last: int, once: bool) -> None:
        self._engine, self._settings, self._checkpoint, self._last = engine, settings, checkpoint, last
        frame = java_frame(engine, settings)
        self._handoff = java_class(engine.jvm, __name__, "Handoff").newInstance()
        trigger = engine.jvm.org.apache.spark.sql.streaming.Trigger
        engine.session.conf.set("spark.sql.streaming.stopTimeout", _STOP_TIMEOUT)
        interval = int(settings.poll_interval.total_seconds() * 1000)
        try:
            writer = frame.writeStream().foreachBatch(self._handoff)
            writer = writer.trigger(trigger.AvailableNow() if once else trigger.ProcessingTime(interval))
            self._query = writer.option("checkpointLocation", checkpoint.location).start()
            self.query = str(self._query.id())
        except JAVA_ERRORS as error:
            raise failure(error, settings) from error

    def wait(self) -> int:
        """Wait for a batch, and return its number; -1: the stream has ended.

        Raises:
            SourceError: It has failed.
        """
        while (epoch := self._held(_WAIT_MILLIS)) == _NO_BATCH and self._is_active():
            pass
        return epoch if epoch != _NO_BATCH else self._held(0)

    def next(self, wait_millis: int) -> int:
        """Return the number of the batch that waits, after a while if Spark still looks for one; -1: none.

        Raises:
            SourceError: The stream has failed, or was stopped by somebody else.
        """
        while (epoch := self._held(wait_millis)) == _NO_BATCH:
            if not self._is_active():
                hint = (
                    "Only one pipeline may have the checkpoint: Spark stops the older of two streams. It starts again"
                )
                raise SourceUnavailableError("The stream was stopped, and not by its pipeline", step="read", hint=hint)
            if not (wait_millis and self._query.status().isDataAvailable()):
                break
        return epoch

    def keep(self, frames: Frames, name: str) -> list[Any]:
        """Compute the batch that is held, and keep its rows under a name; return the splits.

        Raises:
            SourceError: Spark cannot compute it.
        """
        try:
            splits = frames.write(name, self._engine.data_frame(self._handoff.frame()))
        except SourceError as error:
            if isinstance(error.__cause__, JAVA_ERRORS):
                raise failure(error.__cause__, self._settings) from error.__cause__
            raise
        self._checkpoint.sync()
        return splits

    def release(self, epoch: int) -> None:
        """Let Spark go on: the ledger has the batch."""
        self._last = epoch
        self._handoff.release()

    def stop(self) -> None:
        """End it."""
        with contextlib.suppress(*JAVA_ERRORS):  # it does not end in time, or the JVM is gone; the end of Spark ends it
            self._query.stop()

    def _held(self, wait_millis: int) -> int:
        """Return the number of a new batch; one that the ledger has is let go."""
        while 0 <= (epoch := int(self._handoff.epoch(wait_millis))) <= self._last:
            self._handoff.release()
        return epoch

    def _is_active(self) -> bool:
        if self._query.isActive():
            return True
        try:
            self._query.awaitTermination()  # raises why it has ended
        except JAVA_ERRORS as error:
            raise failure(error, self._settings) from error
        return False


def _frame_names(batches: Sequence[Planned]) -> set[str]:
    return {split.body["frame"] for planned in batches for split in planned.splits}
