"""Decides whether values of a column stay as they are when a statement gives it another type.

What is not certain counts as changed: the log has no trace of the rows that ALTER TABLE rewrites.
"""

from __future__ import annotations

from calve.sources.database.table import Column, DatabaseTable
from calve.sources.mysql.catalog.column_types import WIDE
from calve.sources.mysql.ddl.alter import Alteration, Definition
from calve.sources.mysql.protocol.addresses import ADDRESSES
from calve.sources.mysql.protocol.table_map import ENUM, SET, YEAR

__all__ = ["unlogged"]

_INTEGERS = {"tinyint": 1, "smallint": 2, "mediumint": 3, "int": 4, "bigint": 8}
_INTEGERS_OF_LOG = {1: 1, 2: 2, 9: 3, 3: 4, 8: 8}
_DECIMAL, _FLOAT, _DOUBLE, _DATE, _BIT, _JSON, _GEOMETRY = 246, 4, 5, 10, 16, 245, 255
_VARCHAR, _STRING, _BLOB = 15, 254, 252
_TEXT_SIZES = {"tinytext": 1, "text": 2, "mediumtext": 3, "longtext": 4}
_BLOB_SIZES = {"tinyblob": 1, "blob": 2, "mediumblob": 3, "longblob": 4}
_MOMENTS = {17: "timestamp", 18: "datetime", 19: "time"}
_SAME = {_DATE: "date", YEAR: "year", _JSON: "json"}
_COMPLETE = frozenset({"utf8mb4", "utf16", "utf16le", "utf32"})
"""Character sets that have every character."""
_MOST_BYTES = {"utf8mb4": 4, "utf16": 4, "utf16le": 4, "utf32": 4, "utf8mb3": 3, "utf8": 3, "ucs2": 2}
_MOST_BYTES |= dict.fromkeys(WIDE, 2)
"""The bytes of a character; others have one."""
_DIGITS = (10, 0)


def unlogged(table: DatabaseTable, alteration: Alteration, is_strict: bool) -> str:
    """Return why older rows may have other values after an ALTER TABLE, of which the log has no trace; empty: none.

    Args:
        table: The table before it.
        alteration: What it does.
        is_strict: Whether the session refused to change values that do not fit.
    """
    if alteration.why:
        return alteration.why
    gone = {column.name.lower() for column in table.dropped} | {name.lower() for name in alteration.dropped}
    now = [name for name, _ in alteration.added] + [new for _, new in alteration.renamed]
    if again := [name for name in now if name.lower() in gone]:
        return f"a column {again[0]} was dropped, and there is another one of that name"
    if filled := [name for name, is_filled in alteration.added if is_filled]:
        return f"older rows have a value in the new column {filled[0]}"
    columns = {column.name.lower(): column for column in table.columns}
    for definition in alteration.changed:
        column = columns.get(definition.name.lower())
        # a column that is new is kept if it is NULL
        is_kept = _keeps(column, definition, is_strict) if column else not _fills(definition, is_strict)
        if not is_kept:
            return f"a statement may have changed values of its column {definition.name}"
    texts = [column for column in table.columns if column.charset not in ("", alteration.charset)]
    labels = [label for column in texts for label in column.labels]  # MySQL 8.0.15 loses a label `ÿ` of latin1
    may_lose = alteration.charset not in _COMPLETE or not all(map(str.isascii, labels))
    if alteration.charset and texts and not is_strict and may_lose:
        return f"a statement may have changed texts (CONVERT TO CHARACTER SET {alteration.charset})"
    return ""


def _keeps(column: Column, new: Definition, is_strict: bool) -> bool:
    """Return whether all values of a column certainly stay as they are."""
    if _fills(new, is_strict or column.is_key):
        return False
    if column.declared in ADDRESSES:
        return new.kind == column.declared
    if column.oid in _INTEGERS_OF_LOG:
        return new.kind in _INTEGERS and (is_strict or _has_room(column, new))
    if column.oid == _DECIMAL:
        return new.kind == "decimal" and _keeps_decimals(column, new, is_strict)
    if column.oid in (_FLOAT, _DOUBLE):
        kinds = ("float", "double") if column.oid == _FLOAT else ("double", "real")
        return new.kind in kinds and not new.arguments and (is_strict or _may_have_sign(column, new))
    if column.oid in _MOMENTS:
        digits = _number(new, 0)
        is_finer = digits > column.modifier and column.oid != 19  # as text, a time with more digits is another one
        return new.kind == _MOMENTS[column.oid] and (digits == column.modifier or is_finer)
    if column.oid in (ENUM, SET):
        kind = "enum" if column.oid == ENUM else "set"
        return new.kind == kind and (is_strict or set(column.labels) <= set(new.arguments))
    if column.oid == _BIT:
        return new.kind == "bit" and _number(new, 1) == (column.modifier & 7) + (column.modifier >> 8) * 8
    if column.oid == _GEOMETRY:
        return new.kind in ("geometry", column.declared)
    if column.oid in _SAME:
        return new.kind == _SAME[column.oid]
    return _keeps_texts(column, new, is_strict) if column.charset else _keeps_bytes(column, new)


def _fills(new: Definition, is_strict: bool) -> bool:
    """Return whether NULL may become another value."""
    return new.has("AS") or new.has("GENERATED") or (new.has("NOT NULL") and not is_strict)


def _has_room(column: Column, new: Definition) -> bool:
    """Return whether an integer type has all values of the one before."""
    before, size = _INTEGERS_OF_LOG[column.oid], _INTEGERS[new.kind]
    if column.is_unsigned == _is_unsigned(new):
        return size >= before
    return column.is_unsigned and size > before


def _is_unsigned(new: Definition) -> bool:
    return new.has("UNSIGNED") or new.has("ZEROFILL")


def _may_have_sign(column: Column, new: Definition) -> bool:
    return column.is_unsigned or not _is_unsigned(new)


def _keeps_decimals(column: Column, new: Definition, is_strict: bool) -> bool:
    precision, scale = column.modifier & 0xFF, column.modifier >> 8
    more, finer = (int(argument) for argument in (*new.arguments, *map(str, _DIGITS[len(new.arguments) :])))
    if column.kind == "string":  # its text has all digits after the point
        return (more, finer) == (precision, scale)
    return finer >= scale and (is_strict or (more - finer >= precision - scale and _may_have_sign(column, new)))


def _keeps_texts(column: Column, new: Definition, is_strict: bool) -> bool:
    charset = new.charset or ("" if is_strict else "unknown")  # without one, the table's
    if new.charset == "binary" or not (is_strict or charset == column.charset or charset in _COMPLETE):
        return False
    if column.oid == _BLOB:
        size = _TEXT_SIZES.get(new.kind, 0)
        return (
            not new.arguments
            and size >= column.modifier
            and (is_strict or size > column.modifier or charset == column.charset)
        )
    characters = _octets(column) // _MOST_BYTES.get(column.charset, 1)
    if new.kind in _TEXT_SIZES:
        return not new.arguments and characters * 4 < 1 << 8 * _TEXT_SIZES[new.kind]
    if new.kind != "varchar" and (new.kind != "char" or column.oid != _STRING):
        return False  # a char loses spaces at the end
    return _number(new, 1) >= characters


def _keeps_bytes(column: Column, new: Definition) -> bool:
    if column.oid == _BLOB:
        return not new.arguments and _BLOB_SIZES.get(new.kind, 0) >= column.modifier
    if column.oid == _STRING:  # it has zeros at the end, as many as its length says
        return new.kind == "binary" and _number(new, 1) == _octets(column)
    if column.oid == _VARCHAR and new.kind in _BLOB_SIZES:
        return not new.arguments and _octets(column) < 1 << 8 * _BLOB_SIZES[new.kind]
    return column.oid == _VARCHAR and new.kind == "varbinary" and _number(new, 0) >= _octets(column)


def _octets(column: Column) -> int:
    """Return the most bytes of a text or of bytes, as the log has them."""
    if column.oid != _STRING:
        return column.modifier
    kind, low = column.modifier & 0xFF, column.modifier >> 8
    return low | ((kind & 0x30) ^ 0x30) << 4


def _number(new: Definition, default: int) -> int:
    return int(new.arguments[0]) if new.arguments and new.arguments[0].isdigit() else default
