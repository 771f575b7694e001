"""Finds CSV files whose header has one column only because they have another delimiter."""

from __future__ import annotations

import csv
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from calve.observe.log import Log
from calve.sources.file.codec import codec_of
from calve.sources.file.codec_settings import CsvCodec
from calve.sources.file.glob_paths import local_paths
from calve.sources.file.paths import shown
from calve.sources.file.settings import FileSettings
from calve.sources.file.stream import compression_of, head

__all__ = ["HeaderCheck", "OtherDelimiter", "other_delimiter"]

_OBJECTS = 3
_DELIMITERS = {";": ";", "\t": "\\t", "|": "|", ",": ","}
"""What may be meant, and how YAML has it between double quotes."""


class HeaderCheck:
    """Looks at the files of a run, of those on an object store only at the first ones.

    Args:
        settings: The source's options.
        pipeline: The name of the pipeline, for the message.
    """

    def __init__(self, settings: FileSettings, pipeline: str) -> None:
        self._settings, self._log = settings, Log(pipeline)
        self._objects, self._has_warned = _OBJECTS, False

    def check(self, path: str, opened: Callable[[], pa.NativeFile]) -> None:
        """Look at one file, and warn once."""
        codec = codec_of(path, self._settings)
        if self._has_warned or not (self._objects and codec and codec.csv):
            return
        self._objects -= path.startswith("s3://")
        if delimiter := _other_delimiter_of(path, opened, codec.csv, self._settings):
            self._has_warned = True
            what = f"the first row of {shown(path)} has one cell with {delimiter} in it"
            hint = f'If this separates its cells: codec: {{csv: {{delimiter: "{delimiter}"}}}}'
            self._log.warning(what, hint=hint)


class OtherDelimiter(NamedTuple):
    """A file, and what its cells may be divided by, as YAML has it between double quotes."""

    path: str
    delimiter: str

    @staticmethod
    def of(settings: FileSettings) -> OtherDelimiter | None:
        """Look at the first local files that match; None: their first rows have several cells."""
        paths = (path for pattern in settings.patterns if "://" not in pattern for path in local_paths(pattern))
        for path in islice((path for path in paths if Path(path).is_file()), _OBJECTS):
            codec = codec_of(path, settings)
            opened = partial(pa.OSFile, path)
            if codec and codec.csv and (delimiter := _other_delimiter_of(path, opened, codec.csv, settings)):
                return OtherDelimiter(path, delimiter)
        return None


def _other_delimiter_of(path: str, opened: Callable[[], pa.NativeFile], codec: CsvCodec, settings: FileSettings) -> str:
    try:
        with opened() as file:
            compression = compression_of(path, settings.compression, lambda: bytes(file.read_at(4, 0)))
            text = head(file, compression).decode(codec.encoding, "replace")
    except OSError:
        return ""  # the reader has the same error, and reports it
    return other_delimiter(text.removeprefix("\ufeff"), codec)


def other_delimiter(text: str, codec: CsvCodec) -> str:
    r"""Return what the only cell of the first row may be divided by (a tab as `\t`); empty: nothing."""
    lines = [line for line in text.splitlines() if line][:1]
    try:
        row = next(csv.reader(lines, delimiter=codec.delimiter, quotechar=codec.quote_character), [])
    except csv.Error:
        return ""
    return next((written for character, written in _DELIMITERS.items() if len(row) == 1 and character in row[0]), "")
