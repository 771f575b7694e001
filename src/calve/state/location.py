"""Chooses the back end of a folder of the state by its location."""

from __future__ import annotations

from pathlib import Path

from calve.state.durable import local_path
from calve.state.folder import StateFolder
from calve.state.local_folder import LocalFolder
from calve.state.store_folder import StoreFolder

__all__ = ["state_folder_at"]


def state_folder_at(location: str | Path) -> StateFolder:
    """Return a folder of the state, by its path or URI.

    Raises:
        SettingsError: It is on a store that cannot keep a state.
    """
    path = location if isinstance(location, Path) else local_path(location)
    return StoreFolder.at(str(location)) if path is None else LocalFolder(path)
