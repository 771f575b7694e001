"""The positions of which the loaded rows of tables without a key are: changes up to there are in them already.

The task that reads the rows knows the position. It writes it down before it yields rows; a task that is repeated
replaces it, and its rows. Changes of the log are read after all rows are staged.
"""

from __future__ import annotations

from calve.sources.source_files import FilesAt, encoded, files_in, posted_as
from calve.state.location import state_folder_at

__all__ = ["loaded", "note"]

_FOLDER = "loaded"


def note(folder: FilesAt, oid: int, at: int) -> None:
    """Write down the position of the rows of a table; in tasks, may be repeated."""
    files_in(folder).post(_name(oid), encoded(at))


def loaded(folder: str, oid: int) -> int | None:
    """Return the position of the rows of a table; None: it was not loaded. Runs in tasks."""
    return posted_as(files_in(state_folder_at(folder)), _FOLDER, int, now=True).get(_name(oid))


def _name(oid: int) -> str:
    return f"{_FOLDER}/{oid}.json"
