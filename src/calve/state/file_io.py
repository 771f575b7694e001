"""PyIceberg's FileIO for stores that `file_system` knows, named in the properties of `clients.file_io_at`."""

from __future__ import annotations

import pyarrow.fs as pafs
from pyiceberg.io.pyarrow import PyArrowFileIO

from calve.state.file_system import file_system

__all__ = ["StoreFileIO"]


class StoreFileIO(PyArrowFileIO):
    """A FileIO with the connections of Calve's state."""

    def _initialize_fs(self, scheme: str, netloc: str | None = None) -> pafs.FileSystem:
        return file_system(scheme)
