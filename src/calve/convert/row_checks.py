"""Checks converted rows by the rules of a sink, column by column, before they are written; runs on executors."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

from calve.arrays import Mask, storage_type
from calve.columns.options import ConvertOptions
from calve.columns.row_rule import RowRule
from calve.convert.by_table import ConvertedRows
from calve.convert.exact import Exact
from calve.convert.repetitions import Repetitions
from calve.event import duckdb_session
from calve.event.columns import JSON
from calve.event.json_text import to_json
from calve.event.reject import Code, Reject, cut
from calve.expression import Condition
from calve.table.arrow_schema import arrow_type
from calve.table.schema import VariantType

__all__ = ["Checked", "RowChecks", "column_type", "rule_fault"]

_Test = Callable[[pa.ChunkedArray], pa.ChunkedArray]
"""Returns for each value whether it follows a rule; null for NULL."""


class _UnusableError(ValueError):
    """A rule cannot be checked for the values of its column."""


class Checked(NamedTuple):
    """The result of a check.

    Attributes:
        rows: The rows, without those that are rejected.
        failed: For each rule how many rows it has rejected, tagged or set to NULL.
        tags: The names of the rules with `tag` that a row does not follow, by its position in the input.
    """

    rows: ConvertedRows
    failed: dict[str, int]
    tags: dict[int, list[str]]


def rule_fault(rule: RowRule, schema: Schema, keys: Collection[str] = ()) -> str | None:
    """Return why a rule cannot be checked in a table, or cannot have its effect; None if it can.

    Args:
        rule: The rule.
        schema: The columns of the table. It is no fault that one is absent.
        keys: The columns of the key, which are never NULL.
    """
    try:
        if (kind := column_type(schema, rule.column)) is not None:
            _tests(rule, kind)
        for name in rule.unique:
            if (compared := column_type(schema, name)) is not None:
                _require_comparable(name, compared)
    except _UnusableError as error:
        return str(error)
    if variants := _variants(rule, schema):
        return f"an expression cannot read {', '.join(variants)}: a variant"
    field = next((field for field in schema.fields if field.name == rule.column), None)
    if rule.on_failure == "null" and ((field is not None and field.required) or rule.column in keys):
        return f"{rule.column} cannot be NULL: on_failure: null is for optional columns outside the key"
    return None


def column_type(schema: Schema, path: str) -> iceberg.IcebergType | None:
    """Return the type of a column, dotted within structs; None if there is no such column."""
    fields = schema.fields
    while True:
        by_name = {field.name: field.field_type for field in fields}
        if path in by_name:
            return by_name[path]
        name, _, path = path.partition(".")
        struct = by_name.get(name)
        if not path or not isinstance(struct, iceberg.StructType):
            return None
        fields = struct.fields


def _variants(rule: RowRule, schema: Schema) -> list[str]:
    """Return the columns that a condition of a rule reads, and cannot."""
    names = {name for condition in rule.conditions for name in condition.fields or ()}
    return [field.name for field in schema.fields if field.name in names and isinstance(field.field_type, VariantType)]


def _lacks_column(schema: Schema, rule: RowRule) -> bool:
    return any(column_type(schema, name) is None for name in rule.reads)


class RowChecks:
    """The rules of one table.

    Args:
        rules: The rules.
        schema: The columns of the table. One that it lacks is NULL, except for rules of several tables.
    """

    def __init__(self, rules: Sequence[RowRule], schema: Schema) -> None:
        used = [rule for rule in rules if not (rule.is_of_many and _lacks_column(schema, rule))]
        # What becomes NULL is NULL for the other rules; rows that others reject are no first ones of their kind.
        used.sort(key=lambda rule: (bool(rule.unique), not rule.unique and rule.on_failure != "null"))
        self._checks = [_Check(rule, schema) for rule in used]

    def check(self, converted: ConvertedRows, rows: pa.Table) -> Checked:
        """Check rows, which follow those of earlier calls in the same batch.

        Args:
            converted: The rows.
            rows: The same rows with all columns of the table.
        """
        failed, tags, rejects = Counter[str](), dict[int, list[str]](), dict[int, Reject]()
        is_written = np.ones(len(rows), bool)
        for check in self._checks if len(rows) else ():
            fails, name = check.fails(rows, is_written), check.rule.name
            positions = converted.row[fails].tolist()
            if positions and check.sets_null:
                rows = _with_nulls(rows, check.rule.column, fails)
                converted = converted._replace(rows=_with_nulls(converted.rows, check.rule.column, fails))
                failed[name] = len(positions)
            elif check.rule.on_failure == "tag":
                for row in positions:
                    tags.setdefault(row, []).append(name)
            else:
                is_written &= ~fails
                rejects = {row: check.reject._replace(row=row) for row in positions} | rejects
        converted = converted.rejecting(list(rejects.values()))
        names = {check.reject: check.rule.name for check in self._checks}
        failed.update(names.get(reject._replace(row=0), "") for reject in converted.rejects)  # some by a draft
        tags = {row: tagged for row, tagged in tags.items() if row not in rejects}
        failed.update(name for tagged in tags.values() for name in tagged)
        return Checked(converted, {check.rule.name: failed[check.rule.name] for check in self._checks}, tags)


class _Check:
    """One rule for one table."""

    def __init__(self, rule: RowRule, schema: Schema) -> None:
        self.rule = rule
        fault = rule_fault(rule, schema)
        self._kind = column_type(schema, rule.column)
        try:
            self._tests = [] if self._kind is None else _tests(rule, self._kind)
        except _UnusableError:
            self._tests = [pc.is_null]  # no value follows the rule
        self._is_readable = not _variants(rule, schema)
        self._repetitions = Repetitions() if rule.unique else None
        self._lacks_column = _lacks_column(schema, rule)
        self._fault = fault
        self.sets_null = rule.on_failure == "null" and not fault
        code = Code.EXPECTATION_STOPS if rule.on_failure == "fail" else Code.EXPECTATION_FAILED
        text = f"rule {rule.name}: {cut(rule.demand)}"
        self.reject = Reject(0, code, rule.column, f"{text} ({fault})" if fault else text)

    def fails(self, rows: pa.Table, is_written: Mask) -> Mask:
        """Return which rows do not follow the rule; only written ones make others repetitions of theirs."""
        follows = np.full(len(rows), self._is_readable)
        if self._kind is not None:
            values = _column(rows, self.rule.column)
            for test in self._tests:
                follows &= pc.fill_null(test(values), True).to_numpy()
            if self.rule.not_null:
                follows &= pc.is_valid(values).to_numpy()
        elif self.rule.column and self.rule.not_null:
            follows[:] = False
        if self.rule.condition:
            follows &= _evaluated(self.rule.condition[0], rows)
        fails: Mask = ~follows
        meant = _evaluated(self.rule.when, rows) if self.rule.when and self._is_readable else np.ones(len(rows), bool)
        if self._repetitions is not None and self._is_readable and not self._lacks_column:
            values = [_column(rows, name) for name in self.rule.unique]
            fails = self._repetitions.find(values, meant & is_written, are_all=self._fault is not None)
        return fails & meant


def _tests(rule: RowRule, kind: iceberg.IcebergType) -> list[_Test]:
    """Return the tests of the values of a column.

    Raises:
        _UnusableError: One is not for values of this type.
    """
    tests = list[_Test]()
    if rule.among is not None:
        _require(rule, kind, "in", _is_listed, "texts, numbers, booleans, UUIDs, dates and times")
        among = _values(rule.among, kind)
        tests.append(lambda values: pc.if_else(pc.is_valid(values), pc.is_in(values, value_set=among), None))
    if rule.matches is not None:
        _require(rule, kind, "matches", pa.types.is_large_string, "texts")
        tests.append(lambda values: pc.match_substring_regex(values, rf"\A(?:{rule.matches})\z"))
    return [*tests, *_range_tests(rule, kind), *_length_tests(rule, kind)]


def _range_tests(rule: RowRule, kind: iceberg.IcebergType) -> Iterator[_Test]:
    for word, text, compare in (("min", rule.minimum, pc.greater_equal), ("max", rule.maximum, pc.less_equal)):
        if text is not None:
            _require(rule, kind, word, _is_ordered, "numbers, dates and times")
            limit = _values((text,), kind)[0]
            if pc.not_equal(limit, limit).as_py():
                raise _UnusableError(f"{word} is NaN")
            yield partial(_compared, compare, limit, None)


def _length_tests(rule: RowRule, kind: iceberg.IcebergType) -> Iterator[_Test]:
    length = pc.list_value_length if isinstance(kind, iceberg.ListType) else pc.utf8_length
    limits = (("min_length", rule.min_length, pc.greater_equal), ("max_length", rule.max_length, pc.less_equal))
    for word, limit, compare in limits:
        if limit is not None:
            _require(rule, kind, word, _has_length, "texts and lists")
            yield partial(_compared, compare, limit, length)


def _compared(compare: Any, limit: Any, measure: Any, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Compare values, or what a function of Arrow measures of them, with a limit."""
    return compare(measure(values) if measure else values, limit)


def _require_comparable(name: str, kind: iceberg.IcebergType) -> None:
    arrow = arrow_type(kind)
    if pa.types.is_floating(arrow) or not (_is_listed(arrow) or pa.types.is_large_binary(arrow)):
        what = "texts, whole numbers, decimals, booleans, UUIDs, dates, times and binary values"
        raise _UnusableError(f"unique is for {what}, and {name} is a {kind}")


def _require(
    rule: RowRule, kind: iceberg.IcebergType, word: str, fits: Callable[[pa.DataType], bool], what: str
) -> None:
    if not fits(arrow_type(kind)):
        raise _UnusableError(f"{word} is for {what}, and {rule.column} is a {kind}")


def _is_ordered(kind: pa.DataType) -> bool:
    types = pa.types
    return any(test(kind) for test in (types.is_integer, types.is_floating, types.is_decimal, types.is_temporal))


def _is_listed(kind: pa.DataType) -> bool:
    return _is_ordered(kind) or isinstance(kind, pa.UuidType) or kind in (pa.bool_(), pa.large_string())


def _has_length(kind: pa.DataType) -> bool:
    return bool(pa.types.is_large_string(kind) or pa.types.is_large_list(kind))


def _values(texts: Sequence[str], kind: iceberg.IcebergType) -> pa.Array:
    """Return texts as values of a column, read as the texts of events are.

    Raises:
        _UnusableError: One is no such value.
    """
    schema = Schema(iceberg.NestedField(1, "value", kind, required=False))
    exact = Exact(schema, ConvertOptions(on_type_mismatch="dlq"))
    outcome = exact.convert((at, json.dumps({"value": text})) for at, text in enumerate(texts))
    for reject in outcome.rejects:
        raise _UnusableError(f"{cut(texts[reject.row])} is no {kind} ({reject.reason})")
    return pa.array(outcome.columns[0], storage_type(arrow_type(kind)))


def _column(rows: pa.Table, path: str) -> pa.ChunkedArray:
    """Return the values of a column that exists, dotted within structs; extension types as their storage."""
    names: list[str] = rows.column_names
    values: Any = None
    while path:
        name = path if path in names else path.partition(".")[0]
        values = rows[name] if values is None else pc.struct_field(values, [name])
        names = [field.name for field in values.type] if pa.types.is_struct(values.type) else []
        path = path[len(name) + 1 :]
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        return pa.chunked_array([chunk.storage for chunk in values.chunks], kind.storage_type)
    return values


def _with_nulls(rows: pa.Table, name: str, at: Mask) -> pa.Table:
    """Return rows with NULL in some of a column, if they have this column."""
    number = rows.schema.get_field_index(name)
    if number < 0:
        return rows
    values = rows[name].take(pa.array(np.arange(len(rows)), mask=at))  # `if_else` takes no UUIDs
    return rows.set_column(number, rows.schema.field(number), values)


def _evaluated(condition: Condition, rows: pa.Table) -> Mask:
    """Return for which rows a condition is true; it reads their columns as the fields of a JSON object."""
    names = [name for name in rows.column_names if condition.fields is None or name in condition.fields]
    texts = to_json(rows.select(names)) if names else pa.chunked_array([pa.repeat(b"{}", len(rows))])
    events = pa.table({JSON: texts.cast(pa.string())})
    values = duckdb_session.run(f"select {condition.sql} as value from events", events=events)
    mask: Mask = values["value"].to_numpy()
    return mask
