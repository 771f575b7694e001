"""Format strings: text with `${…}`, as in table names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal as OneOf

from calve.expression.compiler import compile_node, finish
from calve.expression.errors import ExpressionSyntaxError
from calve.expression.parser import parse
from calve.expression.scope import Scope
from calve.expression.sql import duckdb_text
from calve.expression.tree import Call, Literal, Node, Pointer

__all__ = ["Format", "compile_format", "compile_value"]

_KEY = re.compile(r"[A-Za-z0-9.\-_~@/\[\] $()]{1,2048}")
_FIELD = re.compile(r"/?[A-Za-z0-9_.@\-]+(/[A-Za-z0-9_.@\-]+)*")
"""A part that is the text of a field, if the event has a text there."""
_CALL = re.compile(r"\s*[A-Za-z_][A-Za-z0-9_]*\s*\(")
Piece = tuple[OneOf["text", "attribute", "missing", "field", "nested"], str]
"""A part of a format: a text itself, or the name of a metadata attribute, of one that the source does not have, of a
field at the top of the event, or of another field or an attribute inside of one."""


@dataclass(frozen=True)
class Format:
    """A compiled format string.

    Attributes:
        static: The text itself if it contains no `${`.
        sql: VARCHAR over a relation with `json` and the metadata columns; NULL if an event cannot be formatted.
        fields: The fields of the event that it reads; None: possibly any.
        metadata: The metadata attributes that it reads.
        doubts: Warnings about parts that are probably not meant as they are read.
        pieces: If it only joins texts, attributes and fields, what they are; else empty.
        is_joined: Whether its text is that of the pieces, joined, with none inside of another.
        given: BOOLEAN over the same relation: whether a part has a value, even an empty one.
        complete: BOOLEAN over the same relation, or NULL for false: whether each part has a value that is not empty.
    """

    static: str | None
    sql: str
    fields: frozenset[str] | None = frozenset()
    metadata: frozenset[str] = frozenset()
    doubts: tuple[str, ...] = ()
    pieces: tuple[Piece, ...] = ()
    is_joined: bool = False
    given: str = "true"
    complete: str = "true"

    @property
    def name_sql(self) -> str:
        """The SQL of a name: NULL if a part has no value, as `t_${/kind}` without a kind names no table."""
        return f"CASE WHEN {self.complete} THEN {self.sql} END"


def compile_format(text: str, metadata: Collection[str] = (), stand_ins: Collection[str] = ()) -> Format:
    """Compile text with `${…}` parts to DuckDB SQL.

    A part is the key of an event's field (`tenant`, `/user/id`) or an expression. A part without a value is empty, but
    a bare key without a value (`${tenant}`) makes the result NULL, as an evaluation error does. Strings appear without
    quotes, all else as JSON text (Data Prepper: Java's own style for objects and arrays).

    Args:
        text: The format string.
        metadata: The attributes that exist as columns; any other reads as missing.
        stand_ins: Fields for which the attribute of the same name stands in where an event lacks them.

    Raises:
        ExpressionSyntaxError: An unbalanced `${`, or a part that is neither a key nor an expression.
    """
    if "\0" in text:
        raise ExpressionSyntaxError("a NUL character", text, text.index("\0"))
    pieces = list(_pieces(text))
    if all(fixed for fixed, _, _ in pieces):
        return Format(text, duckdb_text(text))
    scope = Scope(metadata)
    parts = [
        (duckdb_text(piece), "true")
        if fixed
        else _stand_in(piece.strip(" /"), scope)
        if piece.strip(" /") in stand_ins
        else _part(piece, at, text, scope)
        for fixed, piece, at in pieces
    ]
    sql = " || ".join(part_sql for part_sql, _ in parts)
    joined = tuple(text_part for fixed, piece, _ in pieces if (text_part := _joined(fixed, piece, metadata)))
    joined = joined if len(joined) == len(pieces) and not stand_ins else ()
    is_joined = bool(joined) and all(kind != "nested" for kind, _ in joined)
    sql = scope.close(sql) if is_joined else finish(sql, text, scope)
    given = scope.close(" OR ".join(f"({is_given})" for _, is_given in parts))
    complete = scope.close(" AND ".join(f"({part_sql}) <> ''" for part_sql, _ in parts))
    doubts = tuple(dict.fromkeys(scope.doubts))
    return Format(None, sql, scope.fields(sql), frozenset(scope.used), doubts, joined, is_joined, given, complete)


def compile_value(text: str, metadata: Collection[str] = ()) -> Format:
    """Compile an expression to SQL for its value as JSON text; NULL if it cannot be evaluated, `null` if it has none.

    Args:
        text: The expression.
        metadata: The attributes that exist as columns; any other reads as missing.

    Raises:
        ExpressionSyntaxError: It cannot be read.
    """
    scope = Scope(metadata)
    value = compile_node(parse(text), text, scope)
    sql = f"coalesce({value.json}, 'null')"
    if value.fault:
        sql = f"CASE WHEN NOT ({' OR '.join(value.fault)}) THEN {sql} END"
    sql = finish(sql, text, scope)
    return Format(None, sql, scope.fields(sql), frozenset(scope.used), tuple(dict.fromkeys(scope.doubts)))


def _pieces(text: str) -> Iterator[tuple[bool, str, int]]:
    at = 0
    while (start := text.find("${", at)) >= 0:
        end = text.find("}", start)
        if end < 0:
            raise ExpressionSyntaxError("${ without }", text, start, hint="Write ${/field}")
        if start > at:
            yield True, text[at:start], at
        yield False, text[start + 2 : end], start + 2
        at = end + 1
    if at < len(text):
        yield True, text[at:], at


def _joined(fixed: bool, part: str, metadata: Collection[str]) -> Piece | None:
    """Return a piece of a format as `Format.pieces` has it; None for what must be computed."""
    if fixed:
        return "text", part
    if _FIELD.fullmatch(part):
        name = part.removeprefix("/")
        return "nested" if "/" in name else "field", name
    try:
        node = parse(part)
    except ExpressionSyntaxError:
        return "nested", part.strip(" /")  # a key with a space, say
    if isinstance(node, Call) and node.name == "getMetadata" and isinstance(node.arguments[0], Literal):
        name = str(node.arguments[0].value)
        return "nested" if "/" in name else "attribute" if name in metadata else "missing", name
    return None


def _part(part: str, at: int, text: str, scope: Scope) -> tuple[str, str]:
    """Return SQL for the text of a part, and for whether it has a value."""
    key = _KEY.fullmatch(part) is not None and part.strip(" /") != ""
    try:
        node = parse(part)
    except ExpressionSyntaxError as error:
        if not key or _CALL.match(part):
            raise error.shifted(text, at) from None
        return scope.field_text(part), f"{scope.field_text(part)} IS NOT NULL"
    try:
        text_sql, is_given = _expression(node, part, scope)
    except ExpressionSyntaxError as error:
        raise error.shifted(text, at) from None
    if not key or isinstance(node, Pointer) or _CALL.match(part):
        return text_sql, is_given
    field = scope.field_text(part)
    return f"coalesce({field}, {text_sql})", f"{field} IS NOT NULL OR {is_given}"


def _stand_in(name: str, scope: Scope) -> tuple[str, str]:
    """Return what `_part` does, for a field or the attribute of its name."""
    text = f"coalesce({scope.field_text(name)}, {scope.attribute(name)[1]})"
    return text, f"{text} IS NOT NULL"


def _expression(node: Node, part: str, scope: Scope) -> tuple[str, str]:
    value = compile_node(node, part, scope)
    text_sql = f"coalesce({value.text}, '')"
    text_sql = f"CASE WHEN NOT ({' OR '.join(value.fault)}) THEN {text_sql} END" if value.fault else text_sql
    return text_sql, f"{value.text} IS NOT NULL"
