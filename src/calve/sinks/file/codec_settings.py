"""The options of the formats that the file sink writes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

from calve.settings import option
from calve.sinks.declared_columns import ColumnList

__all__ = ["FileCodec", "LinesFormat", "ParquetFormat"]

_OF_TABLES = re.compile(r"\b(variant|unknown)\b")
"""Types that only tables have: readers of files know no columns that are always null, and few know variants."""


@dataclass(frozen=True)
class LinesFormat:
    """One JSON object per line."""

    IGNORED_KEYS: ClassVar[Mapping[str, str]] = {"extension": "files end in .ndjson, and the ending of the compression"}


def _check_types(types: Mapping[str, str]) -> None:
    from calve.sinks.schema_faults import check_type

    for text in types.values():
        check_type(text)


@dataclass(frozen=True)
class ParquetFormat:
    """Parquet: the rows of each file have columns."""

    IGNORED_KEYS: ClassVar[Mapping[str, str]] = {"auto_schema": "without `schema` the events of a file decide"}

    schema: ColumnList | None = option(
        None,
        "The columns of every file. An event with another field or with a value that does not fit is a dead letter. "
        "Default: each file has the columns of its own events, with the types of the source if it has some.",
    )
    column_types: dict[str, str] = option(
        {},
        'Without `schema`: types of columns, e.g. `{total: "decimal(12,2)", "*_at": timestamptz}`. Keys are dotted '
        "names or patterns with `*` and `?`; an exact name has priority, then the first matching pattern.",
        check=_check_types,
    )
    case_insensitive: bool = option(False, "Match fields to columns in any case, if no column has the exact name.")

    @property
    def columns(self) -> list[dict[str, Any]]:
        """The columns of `schema` for `table.definition.schema_from_columns`; empty without a schema."""
        return [asdict(column) for column in self.schema.columns] if self.schema else []

    @property
    def required(self) -> str | None:
        """The first column that every row must have."""
        return next((column["name"] for column in self.columns if column["required"]), None)

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse types that only tables have, and types of columns that are declared already."""
        types = {f"schema.columns[{at}].type": column["type"] for at, column in enumerate(self.columns)}
        types |= {f"column_types.{name}": text for name, text in self.column_types.items()}
        for key, text in types.items():
            if word := _OF_TABLES.search(text.lower()):
                yield key, f"files have no column of type {word[1]}; use string"
        if self.schema and self.column_types:
            yield "column_types", "schema declares the types of all columns; put them there"


@dataclass(frozen=True)
class FileCodec:
    """The format of the files: one of these keys, e.g. `codec: {parquet: {}}`."""

    REFUSED_KEYS: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("json", "csv", "avro", "newline", "event_json"), "is not written: use ndjson or parquet"
    )

    ndjson: LinesFormat | None = option(None, "One JSON object per line.")
    parquet: ParquetFormat | None = option(None, "Parquet, with a column for each field.")

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse all but exactly one format."""
        if (self.ndjson is None) == (self.parquet is None):
            yield "", f"name exactly one format: {', '.join(field.name for field in fields(self))}"
