"""Decides the Iceberg type of a column from its declared type, and how its values are read and decoded."""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING

from calve.sources.mysql.protocol.addresses import ADDRESSES
from calve.sources.mysql.protocol.table_map import BLOB_COMPRESSED, ENUM, SET, VARCHAR_COMPRESSED

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = [
    "CODECS",
    "REFUSED_TYPES",
    "WIDE",
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
    "uuid": "uuid",
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
REFUSED_TYPES = frozenset({"vector", "xmltype"})
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
    "macce": "mac-latin2",
    "hp8": "hp-roman8",
    "cp866": "calve-mysql-cp866",
    "koi8u": "calve-mysql-koi8u",
    "greek": "calve-mysql-greek",
    "hebrew": "calve-mysql-hebrew",
    "cp1256": "calve-mysql-cp1256",
    "tis620": "calve-mysql-tis620",
    "gbk": "gbk",
    "gb2312": "gb2312",
    "big5": "big5",
    "euckr": "cp949",
    "sjis": "shift-jis",
    "cp932": "cp932",
}
"""Character sets and Python's codecs, which read every byte as MySQL does."""
WIDE = frozenset({"gbk", "gb2312", "big5", "euckr", "sjis", "cp932"})
"""Those with characters of one or of two bytes."""
_NO_CHARACTER = "\ufffd"
_OTHER_BYTES = {
    "latin1": ("cp1252", {byte: chr(byte) for byte in (0x81, 0x8D, 0x8F, 0x90, 0x9D)}),
    "cp866": ("cp866", {0xFC: "\u207f", 0xFD: "\u00b2"}),
    "koi8u": ("koi8-u", {0x95: "\u2022"}),
    "greek": ("iso8859-7", {0xA1: "\u02bd", 0xA2: "\u02bc", 0xA4: "?", 0xA5: "?", 0xAA: "?"}),
    "hebrew": ("iso8859-8", {0xAF: "\u203e"}),
    "cp1256": ("cp1256", dict.fromkeys((0x8A, 0x8F, 0x98, 0x9A, 0x9F, 0xAA, 0xC0, 0xFF), "?")),
    "tis620": ("iso8859-11", dict.fromkeys((0xA0, 0xDB, 0xDC, 0xDD, 0xDE, 0xFC, 0xFD, 0xFE, 0xFF), _NO_CHARACTER)),
}
"""What MySQL reads otherwise than a codec of Python, by its character set."""
_OTHER_PAIRS = {
    "sjis": {b"\x81\x5f": "\\"},
    "big5": {
        **dict.fromkeys(
            (b"\xa1\x5a", b"\xa1\xc3", b"\xa1\xc5", b"\xa1\xfe", b"\xa2\x40", b"\xa2\xcc", b"\xa2\xce"), _NO_CHARACTER
        ),
        **{bytes((0xF9, 0xD6 + at)): text for at, text in enumerate("碁銹裏墻恒粧嫺")},
    },
}
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
_VARCHAR, _STRING = 15, 254
_MOMENTS = {"timestamp": 17, "datetime": 18, "time": 19}
_CHARACTERS = {
    "sjis": re.compile(rb"[\x81-\x9f\xe0-\xfc][\x40-\xfc]|.", re.DOTALL).findall,
    "big5": re.compile(rb"[\x81-\xfe][\x40-\xfe]|.", re.DOTALL).findall,
}
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
    if name in ADDRESSES:
        return _STRING, _STRING | ADDRESSES[name][0] << 8
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
    others = _OTHER_PAIRS.get(charset, {})
    if any(pair in data for pair in others):
        return "".join(others.get(part) or _decoded(part, charset) for part in _CHARACTERS[charset](data))
    return _decoded(data, charset)


def _decoded(data: bytes, charset: str) -> str:
    codec = CODECS[charset]
    try:
        return data.decode(codec)
    except UnicodeDecodeError:
        return data.decode(codec, "replace").replace("\ufffd", "?")


def labels_of(declared: str) -> tuple[str, ...]:
    """Return the values of `enum('a','b''c')`."""
    return tuple(
        _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1] or "'"), text) for text in _LABEL.findall(declared)
    )


def _codec(name: str) -> codecs.CodecInfo | None:
    """Return the codec of a character set of one byte that no codec of Python reads as MySQL does."""
    charset = name.removeprefix("calve_mysql_")
    if charset not in _OTHER_BYTES or charset == name:
        return None
    codec, others = _OTHER_BYTES[charset]
    table = "".join(others.get(byte) or bytes([byte]).decode(codec, "replace") for byte in range(256))

    def decode(data: ReadableBuffer, errors: str = "strict", /) -> tuple[str, int]:
        return codecs.charmap_decode(data, errors, table)

    return codecs.CodecInfo(codecs.lookup("latin-1").encode, decode, name=f"calve-mysql-{charset}")


codecs.register(_codec)
