"""The settings of the iceberg source, by Data Prepper's keys, and Calve's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Literal

import pyarrow as pa

from calve.errors import SettingsError
from calve.settings import option
from calve.settings.catalog import catalog_doubts, catalog_faults
from calve.sources.iceberg.metadata import METADATA, ORIGIN
from calve.sources.settings import SourceSettings

__all__ = ["SETTINGS", "IcebergSourceSettings", "TableSettings"]

_UNUSED = "Accepted for compatibility with Data Prepper; no effect"


def _check_name(text: str) -> None:
    if "." not in text.strip("."):
        raise SettingsError(f"{text!r} has no namespace; write `namespace.table`")


def _check_time(text: str) -> None:
    _parse_time(text)


def _parse_time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise SettingsError(f"{text!r} is not a timestamp; write it like 2026-11-21T08:00:00Z") from error
    return time if time.tzinfo else time.replace(tzinfo=UTC)


@dataclass(frozen=True)
class TableSettings:
    """One table, and the part of it that is read."""

    table_name: str = option(doc="The table, as `namespace.table`.", check=_check_name)
    catalog: dict[str, str] | None = option(
        None, "Iceberg's catalog properties, instead of the source's `catalog`.", secret=True, check=catalog_doubts
    )
    identifier_columns: list[str] = option(
        [],
        "The columns that identify a row. Updates are paired by them, and they form the `document_id`. Default: the "
        "table's identifier fields, or, from format version 3, the row ids.",
    )
    disable_export: bool = option(False, "Do not read existing rows, only changes after the first start.")
    start_snapshot_id: int | None = option(None, "Do not read existing rows, only changes after this snapshot.")
    start_timestamp: str | None = option(
        None,
        "Do not read existing rows, only changes after this time, e.g. 2026-11-21T08:00:00Z.",
        check=_check_time,
    )
    branch: str = option("main", "The branch to read.", minimum=1)
    columns: list[str] = option([], "The columns to read; changes of other columns are ignored. Default: all columns.")
    where: str | None = option(
        None,
        "A condition in Spark SQL that selects the rows to read, e.g. `region = 'EU'`; it may use all columns. A row "
        "that begins to match is an INSERT; a row that no longer matches is a DELETE.",
        minimum=1,
    )

    row_id_column: str | None = option(
        None,
        "A field for the row id (a long), if rows are identified by row id. With it a table without a key can be "
        "mirrored.",
        minimum=1,
    )

    @property
    def start_ms(self) -> int | None:
        """The time to start after, in milliseconds since the epoch."""
        return int(_parse_time(self.start_timestamp).timestamp() * 1000) if self.start_timestamp else None

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse two beginnings, an incomplete catalog, and a key that is not read."""
        yield from catalog_faults(self.catalog)
        starts = [
            name
            for name in ("disable_export", "start_snapshot_id", "start_timestamp")
            if getattr(self, name) not in (None, False)
        ]
        if len(starts) > 1:
            yield starts[1], f"cannot be set beside `{starts[0]}`; remove one"
        for index, name in enumerate(self.columns):
            if name in self.columns[:index]:
                yield f"columns[{index}]", f"the column {name} is listed twice"
        for index, name in enumerate(self.identifier_columns):
            if self.columns and name.partition(".")[0] not in self.columns and name not in self.columns:
                yield f"identifier_columns[{index}]", f"{name} is not among `columns`"


@dataclass(frozen=True)
class IcebergSourceSettings(SourceSettings):
    """Reads Iceberg tables: first their rows, then every change of a row, in the order of the commits."""

    origin: ClassVar[tuple[str, ...]] = (ORIGIN,)
    has_keys: ClassVar[bool] = True
    row_attributes: ClassVar[tuple[str, ...]] = ("document_id",)
    needs_spark: ClassVar[bool] = True

    tables: list[TableSettings] = option(doc="The tables.", minimum=1)
    catalog: dict[str, str] | None = option(
        None,
        "Iceberg's catalog properties for all tables: `type` or `catalog-impl`, `uri`, `warehouse` and so on. "
        "Default: the embedded catalog in `./lakehouse`.",
        secret=True,
        check=catalog_doubts,
    )
    polling_interval: timedelta = option(
        timedelta(seconds=30), "Interval between checks for new snapshots.", minimum=timedelta(milliseconds=100)
    )
    on_lost_position: Literal["fail", "reload"] = option(
        "fail",
        "If the next changes can no longer be read (snapshots expired, or the table was rolled back or recreated): "
        "stop with an error, or read the rows of the table again. Rows deleted meanwhile then produce no event.",
    )
    protect_snapshots: bool = option(
        True, "Protect the snapshot from which reading continues with a tag, `calve-<pipeline>`."
    )
    acknowledgments: bool = option(True, f"{_UNUSED}: progress always follows the commits.")
    shuffle: dict[str, Any] | None = option(None, f"{_UNUSED}: Spark shuffles.")

    @property
    def metadata(self) -> Mapping[str, pa.DataType]:
        """The metadata attributes of a change, and their types."""
        return METADATA

    @property
    def datasets(self) -> list[tuple[str, str]]:
        """The tables."""
        return [
            (f"iceberg://{self.catalog_of(table).get('name', 'lakehouse')}", table.table_name) for table in self.tables
        ]

    def catalog_of(self, table: TableSettings) -> dict[str, str]:
        """Return the properties of a table's catalog; none means Calve's own."""
        return (self.catalog if table.catalog is None else table.catalog) or {}

    @property
    def catalogs(self) -> list[dict[str, str]]:
        """The properties of all catalogs."""
        return [self.catalog_of(table) for table in self.tables]

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse an incomplete catalog, and a duplicate table."""
        yield from catalog_faults(self.catalog)
        names = [(table.table_name, tuple(sorted(self.catalog_of(table).items()))) for table in self.tables]
        for index, name in enumerate(names):
            if name[0] in [other[0] for other in names[:index]]:
                yield f"tables[{index}].table_name", f"the table {name[0]} is listed twice; use a pipeline for each"


SETTINGS = IcebergSourceSettings
