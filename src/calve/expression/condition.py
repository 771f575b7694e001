"""Conditions: expressions that are true or false for each event, as in routes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from calve.expression.compiler import compile_node, finish
from calve.expression.errors import ExpressionSyntaxError
from calve.expression.parser import parse
from calve.expression.scope import Scope

__all__ = ["Condition", "compile_condition"]


@dataclass(frozen=True)
class Condition:
    """A compiled condition.

    Attributes:
        sql: BOOLEAN over a relation with `json` and the metadata columns; never NULL, and false if an event cannot
            be evaluated (or true, as asked for).
        fields: The fields of the event that it reads; None: possibly any.
        metadata: The metadata attributes that it reads.
        doubts: Warnings about parts that are probably not meant as they are read.
    """

    sql: str
    fields: frozenset[str] | None = frozenset()
    metadata: frozenset[str] = frozenset()
    doubts: tuple[str, ...] = ()


def compile_condition(text: str, metadata: Collection[str] = (), if_unknown: bool = False) -> Condition:
    """Compile a condition to DuckDB SQL.

    Args:
        text: The expression.
        metadata: The attributes that exist as columns; any other reads as missing.
        if_unknown: Its value for an event for which it cannot be evaluated.

    Raises:
        ExpressionSyntaxError: It cannot be read, or can never be true or false.
    """
    scope = Scope(metadata)
    node = parse(text)
    value = compile_node(node, text, scope)
    if value.boolean is None:
        hint = "Compare it with something, e.g. /status >= 500"
        raise ExpressionSyntaxError("a condition must be true or false", text, node.at, hint=hint)
    sql = f"coalesce({value.boolean}, {if_unknown})" if value.nullable else value.boolean
    if value.fault:
        fault = " OR ".join(value.fault)
        sql = f"({fault} OR {sql})" if if_unknown else f"(NOT ({fault}) AND {sql})"
    sql = finish(sql, text, scope)
    return Condition(sql, scope.fields(sql), frozenset(scope.used), tuple(dict.fromkeys(scope.doubts)))
