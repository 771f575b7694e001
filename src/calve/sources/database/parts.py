"""What the phases of a database source share during one load."""

from __future__ import annotations

from typing import Any

from calve.observe.log import Log
from calve.sources.database.change_log import ChangeLog
from calve.sources.database.epochs import Epochs
from calve.sources.database.load import Load
from calve.sources.database.own_targets import OwnTargets
from calve.sources.database.reader import DatabaseReader
from calve.sources.database.reload import ReloadTracker
from calve.sources.source import Position, SharedTargets
from calve.sources.source_files import SourceFiles, files_in
from calve.state.location import state_folder_at

__all__ = ["Parts"]


class Parts:
    """The files, the descriptions of the tables, the log and the load of a source; nothing is opened.

    Args:
        reader: The reader of splits, with the settings and the folder.
        own_targets: What the source knows of the targets of its tables.
        files: The source's files.
        settings: The source's settings, with the names that the state keeps.

    Attributes:
        once: Whether a run ends with what the server has at its start.
        number: The number of the load; the first one of a state is 0.
        replaces: Whether its rows replace others, because the targets could not be emptied.
    """

    def __init__(self, reader: DatabaseReader, own_targets: OwnTargets, files: SourceFiles, settings: Any) -> None:
        self.reader, self.own_targets, self.files, self.settings = reader, own_targets, files, settings
        self.pipeline = reader.pipeline
        self.folder = state_folder_at(reader.folder)
        self.lines = Log(self.pipeline)
        self.once, self.number, self.replaces = False, 0, False
        self.epochs = Epochs(files, settings.merge_tables, settings.no_key)
        self.log = ChangeLog(self.folder, settings, self.pipeline, files)
        self.reloads = ReloadTracker(files, self.epochs, self.lines)
        self.load = Load(files)

    @classmethod
    def of(cls, reader: DatabaseReader, shared: SharedTargets) -> Parts:
        """Return those of a source.

        Args:
            reader: See the class.
            shared: Finds targets of several tables.
        """
        own_targets = OwnTargets(shared, reader.settings, reader.database_of)
        return cls(reader, own_targets, files_in(state_folder_at(reader.folder)), reader.settings)

    def renewed(self, number: int, replaces: bool) -> Parts:
        """Return those of another load of the same source."""
        parts = Parts(self.reader, self.own_targets, self.files, self.settings)
        parts.once, parts.number, parts.replaces = self.once, number, replaces
        return parts

    def own(self, position: Position | None) -> Position | None:
        """Return a position of this load; None for one of an earlier load."""
        return position if position and position.get("load", 0) == self.number else None
