"""Decides the Iceberg type of a column from its declared type, and how its values are read and decoded."""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING

from calve.sources.mysql.table_map import BLOB_COMPRESSED, ENUM, SET, VARCHAR_COMPRESSED

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = [
    "CODECS",
    "REFUSED_TYPES",
    "charset_of",
    "compressed_log_type",
    "decoded",
    "in_charset",
    "kind_of",
    "labels_of",
    "log_type",
]

_MOST_DIGITS = 38
_KINDS = {
    "tinyint": "int",
    "smallint": "int",
    "mediumint": "int",
    "int": "int",
    "bigint": "long",
    "year": "int",
    "float": "float",
    "double": "double",
    "date": "date",
    "datetime": "timestamp",
    "timestamp": "timestamptz",
    "time": "string",
    "json": "string",
    "enum": "string",
    "set": "string",
}
_TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
_BYTES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_SHAPES = frozenset(
    {
        "geometry",
        "point",
        "linestring",
        "polygon",
        "multipoint",
        "multilinestring",
        "multipolygon",
        "geomcollection",
        "geometrycollection",
    }
)
REFUSED_TYPES = frozenset({"uuid", "inet4", "inet6", "vector", "xmltype"})
"""Types of MariaDB and MySQL 9 whose bytes in the log have no description there."""
CODECS = {
    "utf8mb4": "utf-8",
    "utf8mb3": "utf-8",
    "utf8": "utf-8",
    "ascii": "ascii",
    "ucs2": "utf-16-be",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
    "latin1": "calve-mysql-latin1",
    "latin2": "iso8859-2",
    "latin5": "iso8859-9",
    "latin7": "iso8859-13",
    "cp1250": "cp1250",
    "cp1251": "cp1251",
    "cp1257": "cp1257",
    "koi8r": "koi8-r",
    "cp850": "cp850",
    "cp852": "cp852",
    "macroman": "mac-roman",
}
"""Character sets and Python's codecs, which read every byte as MySQL does."""
_LOG_TYPES = {
    "tinyint": (1, 0),
    "smallint": (2, 0),
    "mediumint": (9, 0),
    "int": (3, 0),
    "bigint": (8, 0),
    "year": (13, 0),
    "float": (4, 4),
    "double": (5, 8),
    "date": (10, 0),
    "json": (245, 4),
    "tinytext": (252, 1),
    "tinyblob": (252, 1),
    "text": (252, 2),
    "blob": (252, 2),
    "mediumtext": (252, 3),
    "mediumblob": (252, 3),
    "longtext": (252, 4),
    "longblob": (252, 4),
}
_VARCHAR = 15
_MOMENTS = {"timestamp": 17, "datetime": 18, "time": 19}
_LABEL = re.compile(r"'((?:[^']|'')*)'")
_ESCAPE = re.compile(r"\\(.)|''")
_ESCAPED = {"0": "\0", "n": "\n", "r": "\r"}


def kind_of(name: str, declared: str, precision: int, scale: int) -> str:
    """Return the Iceberg type of a column.

    Args:
        name: Its type's name, e.g. `bigint`.
        declared: The complete type, e.g. `bigint(20) unsigned`.
        precision: The digits of a decimal, or the bits of a bit field.
        scale: The digits after the point.
    """
    if name == "decimal":
        return f"decimal({precision}, {scale})" if precision <= _MOST_DIGITS else "string"
    if name == "bit":
        return "boolean" if precision == 1 else "string"
    if "unsigned" in declared and name in ("int", "bigint"):
        return "long" if name == "int" else "decimal(20, 0)"
    return "binary" if name in _BYTES | _SHAPES else _KINDS.get(name, "string")


def log_type(name: str, octets: int, precision: int, scale: int, digits: int, labels: int) -> tuple[int, int]:
    """Return the type that a column has in the log, and what belongs to it there, as a number.

    Args:
        name: Its type's name, e.g. `bigint`.
        octets: The most bytes of a text or of bytes.
        precision: The digits of a decimal, or the bits of a bit field.
        scale: The digits after the point.
        digits: Those of fractions of a second.
        labels: How many an enumeration or set has.
    """
    if name in ("varchar", "varbinary"):
        return _VARCHAR, octets
    if name in ("char", "binary"):
        return 254, 254 ^ (octets & 0x300) >> 4 | (octets & 0xFF) << 8
    if name == "decimal":
        return 246, precision | scale << 8
    if name == "bit":
        return 16, precision & 7 | precision >> 3 << 8
    if name == "enum":
        return ENUM, ENUM | (1 if labels < 256 else 2) << 8
    if name == "set":
        size = (labels + 7) // 8
        return SET, SET | (size if size <= 4 else 8) << 8
    if name in _MOMENTS:
        return _MOMENTS[name], digits
    return (255, 4) if name in _SHAPES else _LOG_TYPES.get(name, (0, 0))


def compressed_log_type(kind: int, extra: int) -> tuple[int, int]:
    """Return the same as `log_type` for a COMPRESSED column of MariaDB, of whose type this is the one without that."""
    return (VARCHAR_COMPRESSED, extra + 1) if kind == _VARCHAR else (BLOB_COMPRESSED, extra)


def charset_of(name: str) -> str:
    """Return the name of a character set; older servers call `utf8mb3` `utf8`."""
    return "utf8mb3" if name == "utf8" else name


def in_charset(text: bytes, charset: str) -> str:
    """Return a text in a character set that only sessions may have, too; in UTF-8 if Python does not know it."""
    try:
        return text.decode(CODECS.get(charset, charset), "replace")
    except LookupError:
        return text.decode("utf-8", "replace")


def decoded(data: bytes, charset: str) -> str:
    """Return a text; bytes that its character set does not have become `?`, as in MySQL."""
    codec = CODECS[charset]
    try:
        return data.decode(codec)
    except UnicodeDecodeError:
        return data.decode(codec, "replace").replace("\ufffd", "?")


def labels_of(declared: str) -> tuple[str, ...]:
    """Return the values of `enum('a','b''c')`."""
    return tuple(
        _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1] or "'"), text) for text in _LABEL.findall(declared)
    )


def _latin1(name: str) -> codecs.CodecInfo | None:
    """Return MySQL's latin1: Windows-1252, whose five holes are control characters."""
    if name != "calve_mysql_latin1":
        return None
    table = "".join(_windows(byte) for byte in range(256))

    def decode(data: ReadableBuffer, errors: str = "strict", /) -> tuple[str, int]:
        return codecs.charmap_decode(data, errors, table)

    return codecs.CodecInfo(codecs.lookup("latin-1").encode, decode, name="calve-mysql-latin1")


def _windows(byte: int) -> str:
    try:
        return bytes([byte]).decode("cp1252")
    except UnicodeDecodeError:
        return chr(byte)


codecs.register(_latin1)
