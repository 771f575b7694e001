"""Checks the option `publish` of the Iceberg sink against its other options, and against a table (driver).

Imported only for a configuration with rules: it needs Iceberg's types.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyiceberg.schema import Schema

from calve.convert.row_checks import column_type
from calve.record.figures import column_fault
from calve.record.target import COPY_ON_WRITE
from calve.table.definition import schema_from_columns

if TYPE_CHECKING:
    from calve.sinks.iceberg.settings import IcebergSettings

__all__ = ["gate_faults", "publish_faults"]


def publish_faults(settings: IcebergSettings) -> Iterator[tuple[str, str]]:
    """Yield what contradicts other options, or can never be judged, each with its key."""
    if settings.branch is not None:
        yield "branch", "does not go with publish, which has its own branch: remove one of them"
    if settings.partial_updates == "keep":
        yield (
            "publish",
            "does not go with partial_updates: keep, whose rows are made by the commit, after they are judged",
        )
    if settings.write_mode == COPY_ON_WRITE:
        yield "publish", "does not go with write_mode: copy-on-write, which writes older rows again: nobody judges them"
    others = {*settings.metadata_columns, *([settings.overflow.column] if settings.overflow else [])}
    declared = schema_from_columns(settings.columns) if settings.schema else None
    for place, name, is_time in _columns(settings):
        if declared is None:
            continue
        if column_type(declared, name) is None and name not in others and not settings.schema_evolution:
            yield f"publish.when.{place}", f"schema.columns has no column {name}"
        elif fault := column_fault(declared, name, is_time):
            yield f"publish.when.{place}", fault


def gate_faults(columns: Schema, settings: IcebergSettings) -> Iterator[str]:
    """Yield the rules that cannot be judged in an existing table, each with the reason."""
    for place, name, is_time in _columns(settings):
        if column_type(columns, name) is None and not settings.schema_evolution and not settings.dynamic:
            yield f"{place}: the table has no column {name}"
        elif fault := column_fault(columns, name, is_time):
            yield f"{place}: {fault}"


def _columns(settings: IcebergSettings) -> Iterator[tuple[str, str, bool]]:
    """Yield the columns of rules: key, name, and whether it is to be a time."""
    assert settings.publish
    rules = settings.publish.when
    for name in rules.max_null_share:
        yield f"max_null_share.{name}", name, False
    if rules.freshness:
        yield "freshness.column", rules.freshness.column, True
