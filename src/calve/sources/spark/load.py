"""A load: all rows of a source of Spark, computed once, kept in the state, and written in batches of bounded size.

Until its last batch is committed, its rows are those that were kept, whatever the source has meanwhile. A load that
is killed while Spark reads begins again, and nobody has seen its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from calve.engine import session
from calve.engine.java.errors import JAVA_ERRORS
from calve.errors import PositionLostError, SettingsError, SourceError
from calve.observe.humanize import many
from calve.observe.log import Log
from calve.sources.bounds import first_up_to
from calve.sources.source import Backlog, Planned, Position, Split
from calve.sources.spark.formats import failure, java_frame
from calve.sources.spark.frames import Frames, file_name
from calve.sources.spark.reader import FrameReader
from calve.sources.spark.settings import SparkSettings
from calve.state.clients import file_io_at
from calve.state.folder import StateFolder

__all__ = ["SparkLoad"]

_LOADED = "loaded"


class SparkLoad:
    """Reads all rows of a source of Spark once for each load id.

    The ledger's position: `load`, its id; `of`, the fingerprint of what was read; `attempt`, more than 1 after a
    reload; `parts`, how many parts the rows were kept in; `part`, how many of them are planned.

    Args:
        settings: The source's settings.
        folder: `<state>/<pipeline>/spark`; `loaded/<id>` has the fingerprint of each load that is committed.
        pipeline: Its name.
    """

    def __init__(self, settings: SparkSettings, folder: StateFolder, pipeline: str) -> None:
        storage = file_io_at(folder.location)
        self.reader = FrameReader((folder / "frames").absolute().location, storage, settings.format or "")
        self._frames = Frames(folder / "frames", storage)
        self._settings, self._folder, self._pipeline = settings, folder, pipeline
        self._of = settings.fingerprint
        self._is_loaded = False
        self._splits: list[Split] | None = None
        self._attempt = 1

    @property
    def condition(self) -> str:
        """Which load is done or runs."""
        if self._is_loaded:
            return f"the load {self._settings.load_id} is committed"
        parts = "" if self._splits is None else f", in {many(len(self._splits), 'part', 'parts')}"
        return f"the load {self._settings.load_id} is read{parts}"

    def start(self, position: Position | None, once: bool, pending: Sequence[Planned] = ()) -> None:
        """Find out whether the load is new, begun or done.

        Raises:
            SettingsError: A load with this id was of something else.
            PositionLostError: Another load is begun, or its rows are not in the state.
        """
        stored = (self._folder / _LOADED).get(file_name([self._settings.load_id]))
        if stored is not None:
            self._check_same(stored.content.decode())
        self._is_loaded = stored is not None
        if position is not None:
            self._go_on(position)
        # only now: a start that is refused because of a load that is half written keeps its rows
        kept = {split.body["frame"] for planned in pending for split in planned.splits}
        self._frames.keep_only(kept if self._is_loaded else {self._name, *kept})

    def _go_on(self, position: Position) -> None:
        is_open = position["part"] < position["parts"]
        if position["load"] != self._settings.load_id:
            if is_open:
                message = (
                    f"the load {position['load']} has written only {position['part']} of {position['parts']} parts"
                )
                self._lost(message, f"Set `load_id: {position['load']}` and run it to its end")
        elif not self._is_loaded:
            self._check_same(position["of"])
            self._attempt = position["attempt"]
            if is_open and not self._frames.has(self._name):
                self._lost("its rows are not in the state", "Bring the state back")
                self._attempt += 1

    def backlog(self, position: Position | None) -> Backlog:
        """Return whether there is something to load; its size is unknown before Spark has read it."""
        if self._is_over(position):
            return Backlog()
        return Backlog(-1, sum(split.size_bytes for split in self._after(position)) or 1, is_urgent=True)

    def plan(self, position: Position | None, max_bytes: int) -> Planned | None:
        """Return the next parts of the load; the first call lets Spark read all rows. May be repeated.

        Raises:
            SourceError: Spark cannot read them.
        """
        if self._is_over(position):
            return None
        if self._splits is None:
            self._splits = self._read()
        splits = first_up_to(max_bytes, self._after(position), lambda split: split.size_bytes)
        part = len(self._splits) - len(self._after(position)) + len(splits)
        end = {"load": self._settings.load_id, "of": self._of, "attempt": self._attempt}
        waiting = ("load",) if part < len(self._splits) else ()
        return Planned(splits, end | {"part": part, "parts": len(self._splits)}, waiting)

    def acknowledge(self, planned: Planned) -> None:
        """Remember a load whose last batch is committed, and remove its rows."""
        position = planned.position
        if position["part"] == position["parts"]:
            (self._folder / _LOADED).put(file_name([position["load"]]), position["of"].encode())
            self._frames.remove({_frame_name(position["load"], position["of"], position["attempt"])})

    @property
    def _name(self) -> str:
        return _frame_name(self._settings.load_id, self._of, self._attempt)

    def _read(self) -> list[Split]:
        kept = self._frames.kept(self._name)
        if kept is not None:
            return kept  # without a look at the source, which may be gone
        engine = session.start()
        try:
            return self._frames.write(self._name, engine.data_frame(java_frame(engine, self._settings)))
        except SourceError as error:
            if isinstance(error.__cause__, JAVA_ERRORS):
                raise failure(error.__cause__, self._settings) from error.__cause__
            raise

    def _after(self, position: Position | None) -> list[Split]:
        """Return the parts that are not planned; none before Spark has read the rows."""
        return (self._splits or [])[position["part"] if self._is_of(position) else 0 :]

    def _is_over(self, position: Position | None) -> bool:
        return self._is_loaded or (self._is_of(position) and position["part"] == position["parts"])

    def _is_of(self, position: Position | None) -> TypeGuard[Position]:
        """Return whether a position is one within this load."""
        identity = self._settings.load_id, self._attempt
        return position is not None and (position["load"], position["attempt"]) == identity

    def _check_same(self, fingerprint: str) -> None:
        """Go on with a load that is known by its fingerprint.

        Raises:
            SettingsError: It was of something else.
        """
        if fingerprint in (self._settings.fingerprint, self._settings.old_fingerprint):
            self._of = fingerprint
        else:
            message = f"The load {self._settings.load_id} of {self._pipeline} was of other options, and is written"
            hint = "Set another `load_id` to load these rows, too; or bring the format, options, schema and select back"
            hint += ", and the password in `url` if an older version of Calve began the load"
            raise SettingsError(message, step="start", target=self._pipeline, hint=hint)

    def _lost(self, problem: str, hint: str) -> None:
        """Raise the error, or log it if the settings accept that a load stays incomplete."""
        message = f"{self._pipeline} cannot load {self._settings.load_id}: {problem}"
        if self._settings.on_lost_position == "fail":
            hint += ". Set on_lost_position: reload to load all of it now, whatever is written of it"
            raise PositionLostError(message, step="read", target=self._pipeline, hint=hint)
        Log(self._pipeline).warning(f"{message}; it loads all the same, as on_lost_position says")


def _frame_name(load: str, of: str, attempt: int) -> str:
    """Return the name of the rows of a load; each attempt has rows of its own, in other parts."""
    return file_name([load, of, attempt] if attempt > 1 else [load, of])
