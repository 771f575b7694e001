"""An SQL value whose JSON kind is known only in each row, or already here."""

from __future__ import annotations

from dataclasses import dataclass, replace

from calve.expression.scope import Scope
from calve.sql import duckdb_text

__all__ = ["Value", "attribute", "field", "flag", "integer", "literal", "number", "text"]

_EXACT = 2**53


@dataclass(frozen=True)
class Value:
    """Views of one value, each an SQL expression that is NULL where the value is of another kind.

    A view that is None says that the value never has that kind.

    Attributes:
        json: The value as compact JSON text; NULL or `null` when there is none.
        text: What a format string shows.
        number: DOUBLE.
        integer: BIGINT, for numbers without a fraction or exponent.
        string: VARCHAR.
        boolean: BOOLEAN.
        fault: SQL that is true, and never NULL, in a row where the value cannot be evaluated; empty: there is none.
        constant: A literal, hence never NULL and cheap to compare with.
        nullable: There may be no value.
        small: A literal number that no other one rounds to as a DOUBLE.
    """

    json: str
    text: str
    number: str | None = None
    integer: str | None = None
    string: str | None = None
    boolean: str | None = None
    fault: tuple[str, ...] = ()
    constant: bool = False
    nullable: bool = True
    small: bool = False

    def failing(self, *faults: str) -> Value:
        """The same value with more reasons to fail."""
        return replace(self, fault=tuple(dict.fromkeys((*self.fault, *faults))))

    @property
    def is_null(self) -> str:
        """SQL: there is no value."""
        return f"coalesce({self.json}, 'null') = 'null'"


def literal(value: str | int | float | bool | None) -> Value:
    """A literal of the expression."""
    if value is None:
        return Value("NULL::VARCHAR", "NULL::VARCHAR")
    if isinstance(value, bool):
        word = str(value).lower()
        return Value(duckdb_text(word), duckdb_text(word), boolean=word, constant=True, nullable=False)
    if isinstance(value, str):
        sql = duckdb_text(value)
        return Value(f"to_json({sql})::VARCHAR", sql, string=sql, constant=True, nullable=False)
    shown = repr(value)
    whole = f"({shown})::BIGINT" if isinstance(value, int) else None
    small = abs(value) < _EXACT
    return Value(
        duckdb_text(shown), duckdb_text(shown), f"({shown})::DOUBLE", whole, constant=True, nullable=False, small=small
    )


def field(scope: Scope, path: str) -> Value:
    """A field of the event."""
    return _dynamic(scope.field(path), scope.field_text(path))


def attribute(scope: Scope, key: str) -> Value:
    """A metadata attribute."""
    return _dynamic(*scope.attribute(key))


def _dynamic(raw: str, shown: str) -> Value:
    # DuckDB writes JSON canonically: an integer prints as itself, any other number has a dot or an exponent
    return Value(
        raw,
        shown,
        number=f"try_cast({raw} AS DOUBLE)",
        integer=f"CASE WHEN try_cast({raw} AS BIGINT)::VARCHAR = {raw} THEN try_cast({raw} AS BIGINT) END",
        string=f"CASE WHEN starts_with({raw}, '\"') THEN json_extract_string({raw}, '$') END",
        boolean=f"CASE {raw} WHEN 'true' THEN true WHEN 'false' THEN false END",
    )


def flag(sql: str, *faults: str) -> Value:
    """A BOOLEAN that is never NULL."""
    word = f"({sql})::VARCHAR"
    return Value(word, word, boolean=sql, fault=faults, nullable=False)


def text(sql: str, *faults: str) -> Value:
    """A VARCHAR that is a string or NULL."""
    return Value(f"to_json({sql})::VARCHAR", sql, string=sql, fault=faults)


def integer(sql: str, *faults: str) -> Value:
    """A BIGINT or NULL."""
    word = f"({sql})::VARCHAR"
    return Value(word, word, f"({sql})::DOUBLE", sql, fault=faults)


def number(double: str, whole: str | None, *faults: str) -> Value:
    """A number that is whole where `whole` is not NULL."""
    shown = (
        f"to_json({double})::VARCHAR" if whole is None else f"coalesce(({whole})::VARCHAR, to_json({double})::VARCHAR)"
    )
    return Value(shown, shown, double, whole, fault=faults)
