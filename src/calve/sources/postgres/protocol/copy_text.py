"""Reads the rows of COPY in text format without the compiled core, exactly."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from calve.event.duckdb_session import one_array

__all__ = ["columns_of"]

_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_MEANT = {"b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r"}
_NULL = r"\N"


def columns_of(rows: bytes, count: int) -> list[pa.Array]:
    """Return the columns of rows as texts.

    Args:
        rows: Lines of values with tabs between them, in which a backslash escapes a byte.
        count: The number of columns.
    """
    data = b"\n" + rows  # a line that is skipped: a mark at the beginning would be taken for that of a file (BOM)
    names = [str(number) for number in range(count)]
    table = csv.read_csv(
        pa.py_buffer(data),
        csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names, skip_rows=1),
        csv.ParseOptions(delimiter="\t", quote_char=False, escape_char=False, ignore_empty_lines=False),
        csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), null_values=[_NULL], strings_can_be_null=True
        ),
    )
    return [_unescaped(one_array(column)) for column in table.columns]


def _unescaped(texts: pa.Array) -> pa.Array:
    if not pc.any(pc.match_substring(texts, "\\")).as_py():
        return texts
    return pa.array([None if text is None else _ESCAPED.sub(_meant, text) for text in texts.to_pylist()], pa.string())


def _meant(escaped: re.Match[str]) -> str:
    return _MEANT.get(escaped[1], escaped[1])
