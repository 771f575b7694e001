"""Functions of strings and lists. Lengths count characters (Data Prepper: UTF-16 units)."""

from __future__ import annotations

import re
from collections.abc import Callable

from calve.expression import value
from calve.expression.regex import check_pattern
from calve.expression.scope import ArgumentError
from calve.expression.sql import duckdb_text
from calve.expression.value import Value

__all__ = ["contains", "join", "length", "replace_regex", "starts_with", "substring"]

_GROUP = re.compile(r"\\?\$(\d)")
"""A group in a replacement; the language writes `$` in a string as `\\$`."""


def _not_string(argument: Value) -> tuple[str, ...]:
    """Return the fault of a value that is neither missing nor a string."""
    if not argument.nullable or (argument.number, argument.boolean) == (None, None):
        return argument.fault
    return (*argument.fault, f"coalesce({argument.json} <> 'null' AND NOT starts_with({argument.json}, '\"'), false)")


def contains(operand: Value, part: Value) -> Value:
    """Return whether a string contains another; false if one is missing, a fault if one is not a string."""
    return _compare("contains", operand, part)


def starts_with(operand: Value, part: Value) -> Value:
    """Return whether a string begins with another; otherwise as `contains`."""
    return _compare("starts_with", operand, part)


def _compare(function: str, operand: Value, part: Value) -> Value:
    sql = f"coalesce({function}({operand.string}, {part.string}), false)"
    return value.flag(sql, *_not_string(operand), *_not_string(part))


def length(operand: Value) -> Value:
    """Count the characters of a string, the elements of a list, or the keys of a map; null for null, else a fault."""
    raw = operand.json
    if operand.number is None:
        return value.integer(f"length({operand.string})", *operand.fault)
    counted = (
        f"CASE left({raw}, 1) WHEN '\"' THEN length(json_extract_string({raw}, '$'))::BIGINT"
        f" WHEN '[' THEN json_array_length({raw})::BIGINT WHEN '{{' THEN len(json_keys({raw})) END"
    )
    wrong = f"(left(coalesce({raw}, 'null'), 1) NOT IN ('\"', '[', '{{', 'n'))"
    return value.integer(counted, *operand.fault, wrong)


def substring(*, after: bool, last: bool) -> Callable[[Value, Value], Value]:
    """Build `substringAfter` and similar functions: the source itself if it lacks the delimiter, or this is empty."""

    def build(source: Value, delimiter: Value) -> Value:
        if last:
            tail = "string_split(__x.s, __x.d)[-1]"
            cut = tail if after else f"left(__x.s, length(__x.s) - length(__x.d) - length({tail}))"
        else:
            cut = (
                "substr(__x.s, strpos(__x.s, __x.d) + length(__x.d))"
                if after
                else "left(__x.s, strpos(__x.s, __x.d) - 1)"
            )
        sql = f"CASE WHEN __x.d <> '' AND contains(__x.s, __x.d) THEN {cut} ELSE __x.s END"
        arguments = f"{{'s': {source.string}, 'd': {delimiter.string}}}"
        return value.text(
            f"list_transform([{arguments}], lambda __x: {sql})[1]", *_not_string(source), *_not_string(delimiter)
        )

    return build


def replace_regex(source: Value, pattern: str, replacement: str) -> Value:
    """Replace every match of a regular expression; `$1` is its first group, `$0` all of the match.

    Raises:
        ArgumentError: The pattern is invalid.
    """
    if problem := check_pattern(pattern):
        raise ArgumentError(problem[0], 1)
    groups = _GROUP.sub(r"\\\1", replacement)
    sql = f"regexp_replace({source.string}, {duckdb_text(pattern)}, {duckdb_text(groups)}, 'g')"
    return value.text(sql, *_not_string(source))


def join(*arguments: str | Value) -> Value:
    r"""Join the elements of a list, or of each list in a map, with a delimiter (default `,`; `\\,` is a comma too).

    Elements that are null are left out (Data Prepper fails). Other values are a fault.
    """
    delimiter = duckdb_text(arguments[0].replace("\\\\,", ",") if isinstance(arguments[0], str) else ",")
    source = arguments[-1]
    assert isinstance(source, Value)
    raw = source.json
    joined = _joined(raw, delimiter)
    entry = f"CASE WHEN starts_with(__e[2], '[') THEN to_json({_joined('__e[2]', delimiter)}) ELSE __e[2]::JSON END"
    pairs = f"list_zip(json_keys({raw}), json_extract({raw}, '$.*'))"
    mapped = f"to_json(map_from_entries(list_transform({pairs}, lambda __e: {{'k': __e[1], 'v': {entry}}})))::VARCHAR"
    begins = f"left(coalesce({raw}, 'null'), 1)"
    return Value(
        f"CASE {begins} WHEN '[' THEN to_json({joined})::VARCHAR WHEN '{{' THEN {mapped} END",
        f"CASE {begins} WHEN '[' THEN {joined} WHEN '{{' THEN {mapped} END",
        string=f"CASE {begins} WHEN '[' THEN {joined} END",
        fault=(*source.fault, f"({begins} NOT IN ('[', '{{'))"),
    )


def _joined(raw: str, delimiter: str) -> str:
    return f"array_to_string(json_extract_string({raw}, '$[*]'), {delimiter})"
