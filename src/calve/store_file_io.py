"""PyIceberg's FileIO for stores that `store_files` knows, named in the properties of `store_client.file_io_at`."""

from __future__ import annotations

import pyarrow.fs as pafs
from pyiceberg.io.pyarrow import PyArrowFileIO

from calve.store_files import file_system

__all__ = ["StoreFileIO"]


class StoreFileIO(PyArrowFileIO):
    """A FileIO with the connections of Calve's state."""

    def _initialize_fs(self, scheme: str, netloc: str | None = None) -> pafs.FileSystem:
        return file_system(scheme)
