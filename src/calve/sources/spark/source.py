"""The spark source on the driver: takes one DataFrame a run, and knows which ones it has taken before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from calve.engine import session
from calve.errors import PositionLostError, SettingsError
from calve.observe.log import Log
from calve.sources.source import ALONE, Backlog, Planned, Position, Source, SourceContext
from calve.sources.spark.formats import java_frame
from calve.sources.spark.frames import Frames, file_name
from calve.sources.spark.load import SparkLoad
from calve.sources.spark.reader import FrameReader
from calve.sources.spark.settings import SparkSettings
from calve.sources.spark.stream import SparkStream
from calve.state.clients import file_io_at
from calve.state.folder import StateFolder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["FrameBatch", "SparkSource", "check_start", "open", "probe"]

_DONE = "done"
_NO_FRAME = "Set `format`; or call calve.spark.sink in the foreachBatch of a stream of your own, or calve.spark.write"


@dataclass(frozen=True)
class FrameBatch:
    """A DataFrame that becomes one batch, and its identity.

    Attributes:
        frame: It is computed once, unless a batch of this identity is taken already.
        position: What the ledger keeps: `{"query": id, "epoch": n}` of a stream, `{"batch": id}` of a single one.
        is_named: Whether the user chose the id of a single one, and may send it again.
    """

    frame: DataFrame
    position: dict[str, Any]
    is_named: bool = False

    @property
    def name(self) -> str:
        """The name of the batch as a file."""
        return file_name([*self.position.values()])


class SparkSource:
    """Takes the DataFrame that it is offered, once.

    Args:
        settings: The source's settings.
        folder: `<state>/<pipeline>/spark`.
        pipeline: Its name.
    """

    def __init__(self, settings: SparkSettings, folder: StateFolder, pipeline: str) -> None:
        storage = file_io_at(folder.location)
        self.reader = FrameReader((folder / "frames").absolute().location, storage)
        self._frames = Frames(folder / "frames", storage)
        self._settings, self._folder, self._pipeline = settings, folder, pipeline
        self._batch: FrameBatch | None = None
        self._planned: Planned | None = None
        self._is_taken = self.is_committed = False

    def offer(self, batch: FrameBatch) -> None:
        """Set the DataFrame of the next run.

        Afterwards `is_committed` is whether it is in the tables, by this run or an earlier one.
        """
        self._batch = batch

    def start(self, position: Position | None, once: bool, pending: Sequence[Planned] = ()) -> None:
        """Check that the offered batch follows the last one.

        Raises:
            SettingsError: None is offered: Calve runs by itself.
            PositionLostError: It does not follow.
        """
        if self._batch is None:
            raise _without_frame(self._pipeline)
        self._frames.keep_only({split.body["frame"] for planned in pending for split in planned.splits})
        self._is_taken = self._was_taken(self._batch, position, pending)
        self.is_committed = self._is_taken and all(planned.position != self._batch.position for planned in pending)

    def backlog(self, position: Position | None) -> Backlog:
        """Return whether the offered batch waits."""
        return Backlog() if self._is_over(position) else Backlog(-1, 1)

    def plan(self, position: Position | None, max_bytes: int) -> Planned | None:
        """Compute and keep the offered DataFrame: all of it is one batch. May be repeated.

        Raises:
            SourceError: Spark cannot compute it.
        """
        if self._is_over(position):
            return None
        if self._planned is None:
            assert self._batch is not None
            splits = self._frames.write(self._batch.name, self._batch.frame)
            self._planned = Planned(splits, self._batch.position)
        return self._planned

    def acknowledge(self, planned: Planned) -> None:
        """Remember that a batch is committed: the offered one, or one whose call failed and named its id."""
        assert self._batch is not None
        is_offered = planned.position == self._batch.position
        if "batch" in planned.position and (self._batch.is_named or not is_offered):
            (self._folder / _DONE).put(file_name([*planned.position.values()]), b"")
        if is_offered:
            self.is_committed = True
            self._frames.keep_only(())

    def _is_over(self, position: Position | None) -> bool:
        return self._batch is None or self._is_taken or position == self._batch.position

    def _was_taken(self, batch: FrameBatch, position: Position | None, pending: Sequence[Planned]) -> bool:
        if "query" not in batch.position:
            positions = [position, *(planned.position for planned in pending)]
            return batch.position in positions or (self._folder / _DONE).get(batch.name) is not None
        query, epoch = batch.position["query"], batch.position["epoch"]
        if not position or "query" not in position:
            return False
        if position["query"] == query and epoch <= position["epoch"]:
            return True
        if position["query"] != query:
            self._lost(
                f"{self._pipeline} has the rows of another stream up to its batch {position['epoch']}: the checkpoint "
                "was deleted or replaced, or two streams write through one pipeline",
                "Bring the checkpoint back; or use a pipeline for each stream",
            )
        elif epoch > position["epoch"] + 1:
            self._lost(
                f"{self._pipeline} has the rows of the stream up to its batch {position['epoch']}, and the next one is "
                f"{epoch}: those between never came",
                "Bring the state back that belongs to the checkpoint",
            )
        return False

    def _lost(self, message: str, hint: str) -> None:
        """Raise the error, or log it if the settings accept that rows come twice or not at all.

        Raises:
            PositionLostError: They do not.
        """
        if self._settings.on_lost_position == "fail":
            hint += ". Set on_lost_position: reload on the source to go on; rows can then come twice"
            raise PositionLostError(message, step="read", target=self._pipeline, hint=hint)
        Log(self._pipeline).warning(f"{message}; it goes on, as on_lost_position says")


def open(settings: SparkSettings, folder: StateFolder, pipeline: str, context: SourceContext = ALONE) -> Source:
    """Return the source of a pipeline; it has no side effects before `start`."""
    if settings.format is None:
        return SparkSource(settings, folder, pipeline)
    return (SparkStream if settings.read == "stream" else SparkLoad)(settings, folder, pipeline)


def probe(settings: SparkSettings, folder: StateFolder, pipeline: str, context: SourceContext) -> None:
    """Let Spark find the format and its columns; without a format only the program that has the rows reaches them."""
    if settings.format is not None:
        java_frame(session.start(), settings)


def check_start(settings: SparkSettings, pipeline: str, once: bool, is_new: bool) -> None:
    """Refuse to run a pipeline that has no format.

    Raises:
        SettingsError: It has none.
    """
    if settings.format is None:
        raise _without_frame(pipeline)


def _without_frame(pipeline: str) -> SettingsError:
    message = (
        f"The source spark of {pipeline} has no `format`, so it takes rows from a program, and cannot run by itself"
    )
    return SettingsError(message, step="start", target=pipeline, hint=_NO_FRAME)
