"""The types of MySQL with edge values, and forms that say exactly what a value is."""

from __future__ import annotations

import struct
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

TEXTS = ["''", "'a,\"b\"\\\\ \\n\\0\\t'", "'NULL'", "'ab  '"]
EDGES: dict[str, list[str]] = {
    "tinyint": ["-128", "127"],
    "tinyint(1)": ["1", "0", "-7"],
    "tinyint unsigned": ["255", "0"],
    "smallint": ["-32768", "32767"],
    "smallint unsigned": ["65535"],
    "mediumint": ["-8388608", "8388607"],
    "mediumint unsigned": ["16777215"],
    "int": ["-2147483648", "2147483647"],
    "int unsigned": ["4294967295"],
    "int(5) zerofill": ["42"],
    "bigint": ["-9223372036854775808", "9223372036854775807"],
    "bigint unsigned": ["18446744073709551615", "0"],
    "year": ["1901", "2155", "0"],
    "bit": ["b'1'", "b'0'"],
    "bit(5)": ["b'10101'", "0"],
    "bit(64)": ["18446744073709551615", "1"],
    "float": ["3.4028234e38", "-1.17549435e-38", "0.1", "16777216", "-0e0"],
    "float(7,3)": ["0.125", "-9999.999"],
    "double": ["1.7976931348623157e308", "2.2250738585072014e-308", "0.1", "-123456789.123456789", "1e15", "-0e0"],
    "double(12,2)": ["9999999999.99", "0.1"],
    "decimal(12,2)": ["9999999999.99", "-0.01", "0"],
    "decimal(38,10)": ["9999999999999999999999999999.9999999999", "-0.0000000001"],
    "decimal(65,30)": ["99999999999999999999999999999999999.999999999999999999999999999999", "-1"],
    "decimal(5,0)": ["99999", "-1"],
    "decimal(9,9)": ["0.123456789"],
    "date": ["'0001-01-01'", "'1969-12-31'", "'9999-12-31'"],
    "datetime": ["'1000-01-01 00:00:00'", "'9999-12-31 23:59:59'"],
    "datetime(1)": ["'1969-12-31 23:59:59.9'"],
    "datetime(3)": ["'1969-12-31 23:59:59.999'"],
    "datetime(6)": ["'1969-12-31 23:59:59.999999'", "'2024-03-31 02:30:00.000001'"],
    "timestamp null": ["'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'"],
    "timestamp(2) null": ["'2024-03-31 02:30:00.25'"],
    "timestamp(6) null": ["'2024-03-31 02:30:00.000001'"],
    "time": ["'-838:59:59'", "'838:59:59'", "'00:00:00'", "'12:34:56'"],
    "time(1)": ["'-00:00:00.1'", "'12:34:56.7'"],
    "time(3)": ["'-838:59:58.999'", "'12:34:56.789'", "'-01:00:00.250'"],
    "time(6)": ["'-00:00:00.000001'", "'100:00:00.654321'"],
    "char(5)": ["'ab  '", "''", "'𝄞ü'"],
    "char(200)": ["'ab'"],
    "varchar(10)": [*TEXTS[:1], "'ab  '", "'ünï 𝄞'"],
    "varchar(300)": TEXTS,
    "varchar(20) character set latin1": ["'ünï€'", "_latin1 x'818d8f909d'"],
    "varchar(20) character set ascii": ["'a'"],
    "varchar(20) character set ucs2": ["'ünï'"],
    "varchar(20) character set utf16": ["'ünï 𝄞'"],
    "varchar(20) character set utf32": ["'ünï 𝄞'"],
    "varchar(20) character set cp1251": ["'Привет'"],
    "varchar(20) collate utf8mb4_bin": ["'B'"],
    "tinytext": ["'t'"],
    "text": ["repeat('a', 70000 div 2)"],
    "mediumtext character set latin2": ["'łódź'"],
    "longtext": ["repeat('ü', 100000)"],
    "binary(5)": ["x'00ff'", "''", "x'6100000000'"],
    "varbinary(5)": ["x'00ff00'", "''"],
    "varbinary(300)": ["x'6100'"],
    "tinyblob": ["x'00'"],
    "blob": ["repeat(x'00ff', 20000)"],
    "longblob": ["x'ff'"],
    "enum('a','b,''c','ü')": ["'a'", "'b,''c'", "'ü'", "''"],
    "enum('x','ÿ') character set latin1": ["'ÿ'"],
    "set('a','b','c ü')": ["'a,c ü'", "''", "'b'"],
    "point": ["point(1, 2)"],
    "geometry": ["st_geomfromtext('LINESTRING(0 0, 1 1)')"],
    "json": [
        '\'{"b": [1, -2, 2.50, 1e100, "x\\\\"ü\\\\n"], "a": null, "aa": true}\'',
        "'[]'",
        "'null'",
        "'\"t\"'",
        "json_object('d', 18446744073709551615, 'e', 70000, 'f', -70000, 'g', 5000000000, 'h', 1.0e0)",
        "json_array(cast('2024-01-02' as date), cast('-12:00:01.5' as time(6)), cast(1.50 as decimal(5,2)))",
        "json_array(timestamp('2024-01-02 03:04:05.6'), 0.1e0, 1e15, 1e20, 1e-7, 123456789012345680e0, false, '𝄞')",
        "json_array(1e-15, 1.5e-16, 1.25e-10, 1e14, -123456.789e0, 0e0, 1.7976931348623157e308, 5e-324)",
        "concat('[\"', repeat('x', 70000), '\", {\"k\": [1, 65536]}]')",
    ],
}
ODD = {
    "date": ["'0000-00-00'", "'2024-00-00'"],
    "datetime(3)": ["'0000-00-00 00:00:00'", "'2024-02-00 01:00:00'"],
    "timestamp null": ["'0000-00-00 00:00:00'"],
}


def sent(kind: str, name: str) -> str:
    """Give the SQL of a value in a form that says exactly what it is."""
    kind = kind.split("(")[0].split(" ")[0]
    if kind in ("float", "double"):
        return f"{name} * 1e0"
    if kind == "date":
        return f"datediff({name}, '1970-01-01')"
    if kind in ("datetime", "timestamp"):
        return f"timestampdiff(microsecond, '1970-01-01', {name})"
    if kind == "bit":
        return f"bin({name} + 0)"
    if kind in ("binary", "varbinary", "tinyblob", "blob", "longblob", "point", "geometry"):
        return f"hex({name})"
    if kind in ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"):
        return f"hex(convert({name} using utf8mb4))"
    return f"{name} + 0" if "int" in kind or kind == "year" else f"cast({name} as char)"


def told(kind: str, value: Any) -> Any:
    """Give a value of the reader in the same form."""
    match value:
        case None:
            return None
        case bool():
            return str(int(value))
        case bytes():
            return value.hex().upper()
        case datetime():
            return str((value.replace(tzinfo=None) - datetime(1970, 1, 1)) // timedelta(microseconds=1))
        case date():
            return str((value - date(1970, 1, 1)).days)
        case Decimal():
            return f"{value:f}"
        case float():
            return struct.pack(">d", value)
    if kind.startswith("bit"):
        return value.lstrip("0") or "0"
    if kind.startswith(("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set")):
        return value.encode().hex().upper()
    return str(value)
