"""The way to one sink, or to the processors of a fed pipeline: compiled conditions, name of the table, operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from calve.event.reject import Code
from calve.expression import Condition, Format
from calve.route.by_table import ByTable
from calve.route.names import fault

__all__ = ["DEFAULT_ROUTE", "Fork", "RouteGate", "SinkRoute"]

DEFAULT_ROUTE = "_default"
_FIXED = "text"
"""The kind of a piece of a format that is no value of an event."""
_NO_OPERATION = ByTable[Format | None](None)


@dataclass(frozen=True)
class RouteGate:
    """The routes of one pipeline that an event must match before a sink.

    Attributes:
        pipeline: Its name.
        conditions: All its routes by name.
        routes: Names of routes, one of which must match; `_default` matches if no route does.
    """

    pipeline: str
    conditions: Mapping[str, Condition]
    routes: tuple[str, ...]

    @property
    def sql(self) -> str:
        """SQL: BOOLEAN, never NULL."""
        anything = " or ".join(f"({condition.sql})" for condition in self.conditions.values()) or "false"
        terms = [
            f"(not ({anything}))" if name == DEFAULT_ROUTE else f"({self.conditions[name].sql})" for name in self.routes
        ]
        return f"({' or '.join(terms)})"


@dataclass(frozen=True)
class SinkRoute:
    """The compiled route and table name of one sink.

    Attributes:
        table: The compiled name of the table or index.
        gates: The gates that an event must match, all of them; empty: every event matches.
        operation: The compiled `operation` of each table; None if every event is an INSERT.
        full_rows: Whether rows of each table have no key; for the same tables as `operation`.
        field: The option with the name.
        fault: Returns what is wrong with a name, or None.
    """

    table: Format
    gates: tuple[RouteGate, ...] = ()
    operation: ByTable[Format | None] = _NO_OPERATION
    full_rows: ByTable[bool] | None = None
    field: str = "table_identifier"
    fault: Callable[[str], str | None] = fault

    def refusal(self, name: str | None) -> tuple[Code, str, str]:
        """Return code, field and reason of events with a name that is not valid; None: they have none."""
        if name is not None:
            return Code.BAD_TABLE_NAME, self.field, self.fault(name) or ""
        if fields := [part for kind, part in self.table.pieces if kind != _FIXED]:
            which = f"one of {', '.join(fields)}" if len(fields) > 1 else fields[0]
            return Code.NO_FIELD, self.field, f"the name needs a value of {which}, which is missing, null or empty"
        return Code.EXPRESSION_ERROR, self.field, f"{self.field} cannot be evaluated"

    @property
    def operations(self) -> list[tuple[int, Format, bool]]:
        """The different values of `operation`, with their numbers, and whether they are of full rows."""
        texts = self.operation.values()
        full_rows = self.full_rows.values() if self.full_rows else [False] * len(texts)
        of_tables = enumerate(zip(texts, full_rows, strict=True))
        return [(at, text, is_full) for at, (text, is_full) in of_tables if text is not None]

    @property
    def metadata(self) -> frozenset[str]:
        """The metadata attributes that it reads."""
        return frozenset().union(*(expression.metadata for expression in self.read))

    @property
    def read(self) -> list[Condition | Format]:
        """All expressions that are evaluated for an event."""
        conditions = [condition for gate in self.gates for condition in gate.conditions.values()]
        return [*conditions, *(text for text in (self.table, *self.operation.values()) if text is not None)]


@dataclass(frozen=True)
class Fork:
    """The way to events that other processors change before they reach sinks.

    Attributes:
        gates: The gates that an event must match, all of them; empty: every event matches.
        sinks: The numbers of the sinks behind it.
    """

    gates: tuple[RouteGate, ...]
    sinks: frozenset[int]

    @property
    def read(self) -> list[Condition]:
        """All expressions that are evaluated for an event."""
        return [condition for gate in self.gates for condition in gate.conditions.values()]
