"""The table properties that configure the writer of data files (Iceberg 1.12, `TableProperties`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from calve.errors import UnsupportedError

__all__ = ["FORMAT", "PARQUET", "Bloom", "WriteProperties", "format_of", "written_as"]

FORMAT = "write.format.default"
PARQUET = "parquet"
"""The format of all files that tasks write."""

_FORMATS = (PARQUET, "avro", "orc")
_PARQUET = "write.parquet."
_METRICS = "write.metadata.metrics."
_CODECS = {"uncompressed": "none"} | {name: name for name in ("zstd", "gzip", "snappy", "lz4", "lz4_raw", "brotli")}
_MODE = re.compile(r"\s*(none|counts|full|truncate\([1-9][0-9]{0,8}\))\s*", re.IGNORECASE)
_PLACES = ("write.data.path", "write.object-storage.path", "write.folder-storage.path")
_OBJECTS = ("write.object-storage.enabled", "write.object-storage.partitioned-paths")


@dataclass(frozen=True)
class Bloom:
    """A column's Bloom filter: its false-positive probability, and the expected number of distinct values, if set."""

    fpp: float = 0.01
    ndv: int | None = None


@dataclass(frozen=True)
class WriteProperties:
    """The write properties of a table, read and checked; None for properties that it does not set.

    Attributes:
        codec: Its name in pyarrow.
        metrics: The properties of the metrics modes.
        location_properties: The properties for a location provider.
        blooms: Bloom filters by column.
        dictionaries: Columns that must or must not have a dictionary.
        unbounded: Columns without Parquet statistics.
        complaints: A sentence for each invalid value; Calve uses its default instead.
    """

    codec: str = "zstd"
    level: int | None = None
    target_bytes: int = 512 << 20
    group_bytes: int | None = None
    page_bytes: int | None = None
    page_rows: int | None = None
    dictionary_bytes: int | None = None
    page_version: str = "1.0"
    metrics: dict[str, str] = field(default_factory=dict)
    location_properties: dict[str, str] = field(default_factory=dict)
    blooms: dict[str, Bloom] = field(default_factory=dict)
    bloom_bytes: int = 1 << 20
    dictionaries: dict[str, bool] = field(default_factory=dict)
    unbounded: frozenset[str] = frozenset()
    complaints: tuple[str, ...] = ()

    @staticmethod
    def read(table: str, properties: Mapping[str, str]) -> WriteProperties:
        """Read the properties of a table, overridden by the sink's `write_properties`.

        Args:
            table: Its identifier, for errors.
            properties: Keys and values as in Iceberg.

        Raises:
            UnsupportedError: It requires files that Calve cannot write.
        """
        _refuse(table, properties)
        reader = _Reader(properties)
        codec = _codec(table, properties.get(f"{_PARQUET}compression-codec") or "zstd")
        flags = reader.flags(f"{_PARQUET}stats-enabled.column.")
        return WriteProperties(
            codec=codec,
            level=reader.level(codec),
            target_bytes=reader.number("write.target-file-size-bytes") or WriteProperties.target_bytes,
            group_bytes=reader.number(f"{_PARQUET}row-group-size-bytes"),
            page_bytes=reader.number(f"{_PARQUET}page-size-bytes"),
            page_rows=reader.number(f"{_PARQUET}page-row-limit"),
            dictionary_bytes=reader.number(f"{_PARQUET}dict-size-bytes"),
            page_version=reader.page_version(),
            metrics=reader.metrics(),
            location_properties=reader.location_properties(),
            blooms=reader.blooms(),
            bloom_bytes=reader.number(f"{_PARQUET}bloom-filter-max-bytes") or WriteProperties.bloom_bytes,
            dictionaries=reader.flags(f"{_PARQUET}dict-encoding-enabled.column."),
            unbounded=frozenset(column for column, wanted in flags.items() if not wanted),
            complaints=tuple(reader.complaints),
        )


class _Reader:
    """Reads single properties; an invalid value becomes a complaint and the default."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = {key: value for key, value in properties.items() if value is not None}
        self.complaints: list[str] = []

    def number(self, key: str) -> int | None:
        text = self._properties.get(key)
        if text is None:
            return None
        if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) < 1:
            self._complain(key, "is not an integer above 0")
            return None
        return min(int(text), (1 << 31) - 1) if key != "write.target-file-size-bytes" else int(text)

    def flag(self, key: str) -> bool | None:
        text = self._properties.get(key, "").lower()
        if text not in ("", "true", "false"):
            self._complain(key, "is neither true nor false")
            return None
        return {"true": True, "false": False}.get(text)

    def flags(self, prefix: str) -> dict[str, bool]:
        flags = {column: self.flag(prefix + column) for column in self._columns(prefix)}
        return {column: value for column, value in flags.items() if value is not None}

    def level(self, codec: str) -> int | None:
        key = f"{_PARQUET}compression-level"
        text = self._properties.get(key)
        if text in (None, "", "null") or codec not in ("zstd", "gzip", "brotli"):
            return None
        least, most = pa.Codec.minimum_compression_level(codec), pa.Codec.maximum_compression_level(codec)
        if not re.fullmatch(r"-?[0-9]{1,9}", text) or not least <= int(text) <= most:
            self._complain(key, f"is not a level of {codec} ({least} to {most})")
            return None
        return int(text)

    def page_version(self) -> str:
        key = f"{_PARQUET}page-version"
        text = self._properties.get(key, "v1").lower()
        if text not in ("v1", "v2"):
            self._complain(key, "is neither v1 nor v2")
        return "2.0" if text == "v2" else "1.0"

    def metrics(self) -> dict[str, str]:
        modes = {}
        for key, text in self._properties.items():
            if not key.startswith(_METRICS):
                continue
            if key.endswith(".max-inferred-column-defaults"):
                if (most := self.number(key)) is not None:
                    modes[key] = str(most)
            elif _MODE.fullmatch(text):
                modes[key] = text.strip().lower()
            else:
                self._complain(key, "is not one of none, counts, full, truncate(length)")
        return modes

    def location_properties(self) -> dict[str, str]:
        properties: dict[str, str] = {}
        for key in _OBJECTS:
            if (wanted := self.flag(key)) is not None:
                properties[key] = str(wanted).lower()
        for key in _PLACES:
            if (path := self._properties.get(key)) and (key != _PLACES[1] or properties.get(_OBJECTS[0]) == "true"):
                properties.setdefault(_PLACES[0], path)
        return properties

    def blooms(self) -> dict[str, Bloom]:
        enabled = self.flags(f"{_PARQUET}bloom-filter-enabled.column.")
        return {
            column: Bloom(self._fpp(column), self.number(f"{_PARQUET}bloom-filter-ndv.column.{column}"))
            for column, wanted in enabled.items()
            if wanted
        }

    def _fpp(self, column: str) -> float:
        key = f"{_PARQUET}bloom-filter-fpp.column.{column}"
        text = self._properties.get(key)
        if text is None:
            return Bloom.fpp
        if not re.fullmatch(r"0?\.[0-9]+|[0-9.]+[eE]-[0-9]+", text) or not 0 < (share := _float(text)) < 1:
            self._complain(key, "is not a number between 0 and 1")
            return Bloom.fpp
        return share

    def _columns(self, prefix: str) -> list[str]:
        return [key.removeprefix(prefix) for key in self._properties if key.startswith(prefix)]

    def _complain(self, key: str, reason: str) -> None:
        self.complaints.append(f"{key}: {self._properties[key][:40]!r} {reason}; Calve uses Iceberg's default")


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _codec(table: str, name: str) -> str:
    codec = _CODECS.get(name.lower())
    if codec is None or (codec != "none" and not pa.Codec.is_available(codec)):
        raise _unsupported(
            table, f"the compression codec {name!r}", "write.parquet.compression-codec: zstd", ", ".join(_CODECS)
        )
    return codec


def format_of(properties: Mapping[str, str]) -> str:
    """Return the format of a table's data files, in lower case."""
    return properties.get(FORMAT, PARQUET).lower()


def written_as(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties by which a commit writes a table's data files again; empty if they are Parquet."""
    kind = format_of(properties)
    given = {key: text for key, text in properties.items() if key.startswith((f"write.{kind}.", _METRICS))}
    return {} if kind == PARQUET else {**given, FORMAT: kind}


def _refuse(table: str, properties: Mapping[str, str]) -> None:
    if (kind := format_of(properties)) not in _FORMATS:
        raise _unsupported(table, f"{kind} files", f"{FORMAT}: parquet", "Parquet, Avro and ORC")
    if properties.get("encryption.key-id"):
        raise _unsupported(table, "encrypted files", "", "files without encryption")
    for key in ("write.location-provider.impl", "write.py-location-provider.impl"):
        if provider := properties.get(key):
            raise _unsupported(table, f"the location provider {provider}", f'{key}: ""', "Iceberg's own layouts")


def _unsupported(table: str, feature: str, setting: str, supported: str) -> UnsupportedError:
    return UnsupportedError(
        f"Table {table} requires {feature}, but Calve writes only {supported}",
        step="write",
        target=table,
        hint=f"Change the table, or set write_properties: {{{setting}}}" if setting else "Write it with another engine",
    )
