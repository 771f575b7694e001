"""The executors' side of the file source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from calve.errors import SourceUnavailableError
from calve.sources.file.codec import FilePart, read_part
from calve.sources.file.paths import readable
from calve.sources.file.rows import FileBatches
from calve.sources.file.settings import FileSettings
from calve.sources.file.storage import Storage
from calve.sources.source import Split

__all__ = ["FileReader"]


@dataclass(frozen=True)
class FileReader:
    """Reads the parts of files; a missing file becomes one row with the reason, and the other files are read.

    Attributes:
        settings: The source's options.
    """

    settings: FileSettings

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the events of a part in order, with `file_path` and `file_row` (from 1; null if it is unknown).

        Raises:
            SourceUnavailableError: The storage does not answer.
        """
        part = FilePart(**split.body)
        try:
            with Storage(self.settings.s3).open(part.path) as file:
                yield from read_part(file, part, self.settings)
        except (FileNotFoundError, PermissionError) as error:
            if part.start == 0:
                why = "was not readable" if isinstance(error, PermissionError) else "was gone"
                yield from FileBatches(readable(part.path)).broken(f"{why} when its turn came")
        except OSError as error:
            raise SourceUnavailableError(
                f"The file {readable(part.path)} cannot be read: {error}",
                step="read",
                target=part.path,
                hint="Calve tries again; check the storage of the file",
            ) from error
