"""SQL values whose JSON kind is known at compile time, or only in each row."""

from __future__ import annotations

from dataclasses import dataclass, replace

from calve.expression.scope import Scope
from calve.expression.sql import duckdb_text

__all__ = ["Value", "attribute", "field", "flag", "integer", "literal", "number", "text"]

_EXACT = 2**53


@dataclass(frozen=True)
class Value:
    """Views of one value: SQL expressions that are NULL if the value has another kind.

    A view is None if the value never has that kind.

    Attributes:
        json: The value as compact JSON text; NULL or `null` if there is none.
        text: The text in a format string.
        number: DOUBLE.
        integer: BIGINT, for numbers without a fraction or exponent.
        string: VARCHAR.
        boolean: BOOLEAN.
        fault: SQL that is true, and never NULL, in rows in which the value cannot be evaluated; empty: it never fails.
        constant: A literal: never NULL, and cheap to compare.
        nullable: The value may be missing.
        small: A literal number that no other number equals as a DOUBLE.
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
        """Return the value with more faults."""
        return replace(self, fault=tuple(dict.fromkeys((*self.fault, *faults))))

    @property
    def is_null(self) -> str:
        """SQL that is true if there is no value."""
        return f"coalesce({self.json}, 'null') = 'null'"


def literal(value: str | int | float | bool | None) -> Value:
    """Return a literal of the expression."""
    if value is None:
        return Value("NULL::VARCHAR", "NULL::VARCHAR")
    if isinstance(value, bool):
        word = str(value).lower()
        return Value(duckdb_text(word), duckdb_text(word), boolean=word, constant=True, nullable=False)
    if isinstance(value, str):
        sql = duckdb_text(value)
        return Value(f"to_json({sql})::VARCHAR", sql, string=sql, constant=True, nullable=False)
    text = repr(value)
    exact = f"({text})::BIGINT" if isinstance(value, int) else None
    small = abs(value) < _EXACT
    return Value(
        duckdb_text(text),
        duckdb_text(text),
        f"({text})::DOUBLE",
        exact,
        constant=True,
        nullable=False,
        small=small,
    )


def field(scope: Scope, path: str) -> Value:
    """Return a field of the event."""
    return _dynamic(scope.field(path), scope.field_text(path))


def attribute(scope: Scope, key: str) -> Value:
    """Return a metadata attribute."""
    return _dynamic(*scope.attribute(key))


def _dynamic(raw: str, text_sql: str) -> Value:
    # DuckDB writes JSON canonically: an integer as itself, any other number with a dot or an exponent
    return Value(
        raw,
        text_sql,
        number=f"try_cast({raw} AS DOUBLE)",
        integer=f"CASE WHEN try_cast({raw} AS BIGINT)::VARCHAR = {raw} THEN try_cast({raw} AS BIGINT) END",
        string=f"CASE WHEN starts_with({raw}, '\"') THEN json_extract_string({raw}, '$') END",
        boolean=f"CASE {raw} WHEN 'true' THEN true WHEN 'false' THEN false END",
    )


def flag(sql: str, *faults: str) -> Value:
    """Return a BOOLEAN that is never NULL."""
    word = f"({sql})::VARCHAR"
    return Value(word, word, boolean=sql, fault=faults, nullable=False)


def text(sql: str, *faults: str) -> Value:
    """Return a VARCHAR that is a string or NULL."""
    return Value(f"to_json({sql})::VARCHAR", sql, string=sql, fault=faults)


def integer(sql: str, *faults: str) -> Value:
    """Return a BIGINT or NULL."""
    word = f"({sql})::VARCHAR"
    return Value(word, word, f"({sql})::DOUBLE", sql, fault=faults)


def number(double: str, exact: str | None, *faults: str) -> Value:
    """Return a number that is an integer if `exact` is not NULL."""
    text_sql = (
        f"to_json({double})::VARCHAR" if exact is None else f"coalesce(({exact})::VARCHAR, to_json({double})::VARCHAR)"
    )
    return Value(text_sql, text_sql, double, exact, fault=faults)
