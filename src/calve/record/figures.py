"""Counts what the rules of a gate need to know of rows, from the metrics of their files, or for a dry run from rows."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

from calve.record.content_file import ContentFile
from calve.table.gate import CommitGate, Figures
from calve.table.kinds import Limit, primitive
from calve.table.schema import VariantType, path_of

__all__ = ["column_fault", "figures_of", "figures_of_rows"]

_DAY_MICROS = 24 * 3600 * 1_000_000
_MOST_MICROS = 2**63 - 1


def figures_of(gate: CommitGate, schema: Schema, files: Iterable[ContentFile], at_ms: int, main: int | None) -> Figures:
    """Return the figures of a commit.

    Args:
        gate: The rules.
        schema: The table's. A rule about a column that it does not have does not count; one about a column that files
            do not count, e.g. a list, does not hold.
        files: The files that the commit adds; of a column that a file does not have, all values are NULL. A column that
            one has, and does not count, has no figure.
        at_ms: The present, in milliseconds since the epoch.
        main: The snapshot of `main`.
    """
    added = [file for file in files if file.is_data]
    columns, time = _judged(gate, schema)
    nulls = {name: [_nulls(file, field.field_id) for file in added] for name, field in columns.items()}
    return Figures(
        at=at_ms,
        rows=sum(file.record_count for file in added),
        nulls={name: sum(filter(None, counts)) for name, counts in nulls.items() if None not in counts},
        newest=max((at for file in added if time and (at := _newest(file, time)) is not None), default=None),
        main=main,
        absent=_absent(gate, schema),
    )


def figures_of_rows(gate: CommitGate, schema: Schema, rows: pa.Table, at_ms: int) -> Figures:
    """Return the figures of typed rows that no file has yet; otherwise as `figures_of`."""
    columns, time = _judged(gate, schema)
    latest = pc.max(_values(rows, schema, time)) if time else pa.scalar(None)
    return Figures(
        at=at_ms,
        rows=len(rows),
        nulls={name: _values(rows, schema, field).null_count for name, field in columns.items()},
        newest=_micros(latest.cast(f"int{latest.type.bit_width}").as_py(), time) if time and latest.is_valid else None,
        absent=_absent(gate, schema),
    )


def _judged(gate: CommitGate, schema: Schema) -> tuple[dict[str, iceberg.NestedField], iceberg.NestedField | None]:
    """Return the columns of a table whose NULLs files count, and the one with times."""
    columns = {
        name: field
        for name in gate.max_null_share
        if (field := _field(schema, name)) and not column_fault(schema, name)
    }
    time = _field(schema, gate.time_column) if gate.time_column else None
    return columns, time if time and not column_fault(schema, gate.time_column, is_time=True) else None


def _absent(gate: CommitGate, schema: Schema) -> tuple[str, ...]:
    return tuple(name for name in gate.columns if _field(schema, name) is None)


def _values(rows: pa.Table, schema: Schema, field: iceberg.NestedField) -> pa.ChunkedArray:
    first, *rest = path_of(schema, field.field_id)
    column = rows[first]
    for name in rest:
        column = pc.struct_field(column, name)
    return column


def column_fault(schema: Schema, name: str, is_time: bool = False) -> str:
    """Return why a rule cannot be about a column; empty: it can, or there is no such column."""
    field = _field(schema, name)
    if field is None:
        return ""
    kind = field.field_type
    if is_time and not primitive(kind).is_date_time:
        return f"{name} is {kind}, and not a date or a timestamp"
    try:
        path_of(schema, field.field_id)
    except ValueError:
        return f"{name} is inside a list or a map, whose values are not counted by row"
    if isinstance(kind, VariantType) or not isinstance(kind, iceberg.PrimitiveType):
        return f"{name} is {kind}, whose NULLs files do not count; name a field inside a struct"
    if Limit.NO_ORDER in primitive(kind).limits:  # written without Parquet's statistics
        return f"{name} is {kind}, whose NULLs files do not count"
    return ""


def _field(schema: Schema, name: str) -> iceberg.NestedField | None:
    try:
        return schema.find_field(name)
    except ValueError:
        return None


def _nulls(file: ContentFile, field_id: int) -> int | None:
    """Return the NULLs of a column in a file, all rows if it lacks the column; None: it does not count them."""
    counts, sizes = file.null_value_counts, file.column_sizes
    by_id = dict(zip(counts.keys, counts.values, strict=True)) if counts else {}
    return by_id.get(field_id, None if sizes and field_id in sizes.keys else file.record_count)


def _newest(file: ContentFile, field: iceberg.NestedField) -> int | None:
    """Return the latest time in a file, in microseconds since the epoch: of a date, the end of its day."""
    bounds = file.upper_bounds
    text = dict(zip(bounds.keys, bounds.values, strict=True)).get(field.field_id) if bounds else None
    if text is None:
        return None
    return _micros(int.from_bytes(bytes.fromhex(text), "little", signed=True), field)


def _micros(value: int, field: iceberg.NestedField) -> int:
    """Return a time as Iceberg stores it in microseconds since the epoch; of dates that are too far away the limit."""
    per_second = primitive(field.field_type).per_second
    micros = value * 1_000_000 // per_second if per_second else (value + 1) * _DAY_MICROS
    return max(min(micros, _MOST_MICROS), -_MOST_MICROS)
