"""Describes a data file that is closed: its statistics and bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from pyiceberg.io.pyarrow import (
    MetricModeTypes,
    MetricsMode,
    compute_statistics_plan,
    parquet_path_to_id_mapping,
)
from pyiceberg.schema import Schema

from calve.record.content_file import Bounds, ContentFile, Counts
from calve.table.kinds import METADATA, VALUE, Limit, primitive
from calve.table.loaded import Table
from calve.table.schema import is_variant
from calve.write.partition import Partition
from calve.write.properties import WriteProperties
from calve.write.statistics import Gauge

__all__ = ["Closed", "Described", "data_file", "metrics_modes"]

_METRICS = "write.metadata.metrics."
_TRUNCATED = "truncate(16)"


class Closed(NamedTuple):
    """A finished file: its length in bytes, its `pyarrow.parquet.FileMetaData`, the sort order that all of it has."""

    size_bytes: int
    metadata: Any
    sort_order_id: int


class Described:
    """What describing the files of one table needs, worked out once.

    Args:
        table: The table.
        properties: What its properties wish.
        sorted_columns: Its sort order's columns, which get bounds.
        equality_ids: For equality deletes: the field ids of the key.

    Attributes:
        gauge: Reads the statistics of a file.
        plain: The field ids of the Parquet columns by path, without those of variants.
        variants: The Parquet paths of the variants by field id; they have no counts and no bounds.
        bounded: The paths of the columns that get statistics.
    """

    def __init__(
        self,
        table: Table,
        properties: WriteProperties,
        sorted_columns: Sequence[str] = (),
        equality_ids: Sequence[int] = (),
    ) -> None:
        self.equality_ids = list(equality_ids)
        self.spec_id = table.spec.spec_id
        modes = metrics_modes(table.schema, properties.metrics, sorted_columns)
        plan = compute_statistics_plan(table.schema, modes)
        paths = parquet_path_to_id_mapping(table.schema)
        self.variants = {key: path for path, key in paths.items() if is_variant(table.schema, key)}
        for key in self.variants:
            plan[key] = replace(plan[key], mode=MetricsMode(MetricModeTypes.NONE))
        self.plain = {path: key for path, key in paths.items() if key not in self.variants}
        parts = {f"{path}.{part}": key for key, path in self.variants.items() for part in (METADATA, VALUE)}
        self.gauge = Gauge(plan, {**self.plain, **parts})
        self.bounded = [
            path
            for path, key in self.plain.items()
            if Limit.NO_ORDER not in primitive(table.schema.find_type(key)).limits
            and table.schema.find_column_name(key) not in properties.unbounded
        ]


def data_file(path: str, closed: Closed, partition: Partition, described: Described) -> ContentFile:
    """Describe one closed Parquet file.

    Args:
        path: Its full location.
        closed: Its length, Parquet metadata and sort order.
        partition: The partition that all its rows are in.
        described: The table's statistics plan.
    """
    statistics = described.gauge.read(closed.metadata)
    return ContentFile(
        spec_id=described.spec_id,
        content="EQUALITY_DELETES" if described.equality_ids else "DATA",
        file_path=path,
        file_format="PARQUET",
        partition=list(partition.values),
        file_size_in_bytes=closed.size_bytes,
        record_count=statistics.rows,
        column_sizes=_counts(statistics.sizes),
        value_counts=_counts(statistics.values),
        null_value_counts=_counts(statistics.nulls),
        nan_value_counts=Counts(),
        lower_bounds=_bounds(statistics.lower),
        upper_bounds=_bounds(statistics.upper),
        split_offsets=statistics.split_offsets,
        sort_order_id=closed.sort_order_id,
        equality_ids=described.equality_ids,
    )


def metrics_modes(schema: Schema, modes: Mapping[str, str], sorted_columns: Sequence[str]) -> dict[str, str]:
    """Return the metrics modes as Iceberg's Java infers them.

    Of a wide table only the first 100 columns have metrics by default; sorted columns always have bounds by default.
    """
    inferred = dict(modes)
    default = modes.get(f"{_METRICS}default")
    most = int(modes.get(f"{_METRICS}max-inferred-column-defaults", 100))
    if default is None and len(schema.field_ids) > most:
        inferred[f"{_METRICS}default"] = default = "none"
        for key in sorted(schema.field_ids)[:most]:
            inferred.setdefault(f"{_METRICS}column.{schema.find_column_name(key)}", _TRUNCATED)
    if default in ("none", "counts"):
        for column in sorted_columns:
            inferred.setdefault(f"{_METRICS}column.{column}", _TRUNCATED)
    return inferred


def _counts(by_field: dict[int, int]) -> Counts:
    return Counts(list(by_field), list(by_field.values()))


def _bounds(by_field: dict[int, bytes]) -> Bounds:
    return Bounds(list(by_field), [value.hex().upper() for value in by_field.values()])
