"""Protects the snapshot from which a pipeline continues: with a tag, which Iceberg's expiry of snapshots respects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calve.engine.java.errors import java_errors
from calve.errors import CalveError
from calve.observe.log import Log

__all__ = ["Protection"]


class Protection:
    """The tags of one pipeline, one in each of its tables; may be called by any thread.

    Args:
        pipeline: Its name, which is part of the tag's name.
        log: Logs how to remove a tag, and once per table why it cannot be set.
    """

    def __init__(self, pipeline: str, log: Log) -> None:
        self.tag = f"calve-{pipeline}"
        self._log = log
        self._at: dict[str, int] = {}

    def keep(self, identifier: str, load: Callable[[], Any], snapshot: int | None) -> None:
        """Move the tag of a table to a snapshot; a failure is only a warning, because nothing is lost yet."""
        if snapshot is None or self._at.get(identifier) == snapshot:
            return
        try:
            self._move(identifier, load(), snapshot)
        except CalveError as error:
            what = f"the tag {self.tag} of {identifier} cannot be moved: {error}"
            hint = "keep snapshots until they are read, or set protect_snapshots: false"
            self._log.warning_once(f"{what}; {hint}", (self.tag, identifier))
            return
        self._at[identifier] = snapshot

    def _move(self, identifier: str, java_table: Any, snapshot: int) -> None:
        with java_errors("protect", identifier):
            held = java_table.refs().get(self.tag)
            if held is not None and held.snapshotId() == snapshot:
                return
            if java_table.snapshot(snapshot) is None:
                return  # expired already: the next read reports it
            update = java_table.manageSnapshots()
            update = (update.createTag if held is None else update.replaceTag)(self.tag, snapshot)
            update.commit()
        if held is None:
            self._log.info(
                f"the tag {self.tag} of {identifier} protects the snapshot from which reading continues, and moves "
                f"with it; if the pipeline never runs again: ALTER TABLE {identifier} DROP TAG `{self.tag}`"
            )
