"""Checks the option `expect` of the Iceberg sink against its other options, and against a table (driver).

Imported only for a configuration with rules: it needs Iceberg's types.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from calve.columns.row_rule import FAILED_RULES, RowRule
from calve.convert.row_checks import column_type, rule_fault
from calve.table.definition import schema_from_columns

if TYPE_CHECKING:
    from calve.sinks.iceberg.settings import IcebergSettings

__all__ = ["expect_doubts", "expect_faults", "table_faults"]


def expect_faults(settings: IcebergSettings) -> Iterator[tuple[str, str]]:
    """Yield rules that can never be checked, or contradict other options, each with its key."""
    names = [entry.label for entry in settings.expect]
    declared = schema_from_columns(settings.columns) if settings.schema else None
    others = {*settings.metadata_columns, *([settings.overflow.column] if settings.overflow else [])}
    for index, (entry, rule) in enumerate(zip(settings.expect, settings.rules, strict=True)):
        place = f"expect[{index}]"
        if entry.label in names[:index]:
            yield f"{place}.name", f"two rules have the name {entry.label}; set another name"
        if rule.on_failure == "null" and rule.column in others:
            yield f"{place}.on_failure", f"null is for columns of events, and {rule.column} is none"
        if settings.partial_updates == "keep" and (rule.not_null or rule.when or rule.condition):
            yield place, "an UPDATE may lack columns with partial_updates: keep, so use in, matches, min or max"
        absent = [name for name in rule.reads - others if declared and column_type(declared, name) is None]
        if absent:
            yield place, f"schema.columns has no column {', '.join(sorted(absent))}"
        if fault := rule_fault(rule, declared or _declared_types(settings, rule), settings.key_columns):
            yield place, fault


def _declared_types(settings: IcebergSettings, rule: RowRule) -> Schema:
    """Return a column with the type that the settings declare for it, if they do."""
    kind = settings.inferred_types.of(rule.column.split(".")) if settings.column_types and rule.column else None
    return Schema(*([NestedField(1, rule.column, kind, required=False)] if kind else []))


def expect_doubts(settings: IcebergSettings) -> Iterator[tuple[str, str]]:
    """Warn of rules with `tag` whose names go to no column."""
    for index, rule in enumerate(settings.rules):
        if rule.on_failure == "tag" and FAILED_RULES not in settings.metadata_columns.values():
            yield (
                f"expect[{index}].on_failure",
                f"tag only counts: for the names in a column add metadata_columns: {{_failed_rules: {FAILED_RULES}}}",
            )


def table_faults(columns: Schema, settings: IcebergSettings) -> Iterator[str]:
    """Yield the rules that cannot be checked in an existing table, each with the reason."""
    for rule in settings.rules:
        lacking = [name for name in sorted(rule.reads) if column_type(columns, name) is None]
        if lacking and not settings.schema_evolution and not rule.is_of_many:
            yield f"{rule.name}: the table has no column {', '.join(lacking)}"
        elif fault := rule_fault(rule, columns, settings.key_columns):
            yield f"{rule.name}: {fault}"
