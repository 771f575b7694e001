"""SQL that writes a row's JSON text anew, its logical types as text: what `logical.render` does, for all rows at once.

Each value comes as its JSON text. A value that is not proven to be as usual makes the row's proof false, and the row
is then decoded by `exact`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from calve.event.envelope.layers import Layers, pointer, quoted
from calve.event.envelope.logical import DECIMAL, EPOCHS, PLACEHOLDERS, UTC_TEXTS, VARIABLE_DECIMAL, needs_care
from calve.event.envelope.schema import Field

__all__ = ["Rebuild"]

_MOST_DIGITS = 30
"""Hexadecimal digits of a decimal that fit DuckDB's HUGEINT with every sign."""
_FEW_DIGITS = 14
"""The same for BIGINT, which is twice as fast."""
_PLACEHOLDERS = ", ".join(quoted(json.dumps(each, separators=(",", ":"))) for each in PLACEHOLDERS)
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # years 1 to 9999
_DAY_SECONDS = 86_400
_NANO_LIMIT = 9_223_372_036 * 10**9


class Rebuild:
    """Writes one row.

    Args:
        schema: The row's schema, a struct.
        at: Where the row is.
        layers: Gets what has to be read and computed.
        partly: Leave out values that the source did not tell.

    Attributes:
        text: SQL of the row's JSON text.
        proofs: SQL conditions; all true where the text is proven.
    """

    def __init__(self, schema: Field, at: str, layers: Layers, partly: bool = False) -> None:
        self._layers = layers
        told = [layers.text(at + pointer(each.name)) for each in schema.fields]
        self.proofs = [f"coalesce({', '.join(told)}) IS NOT NULL"]
        members = [self._member(each, at) for each in schema.fields]
        if partly:
            members = [
                f"CASE WHEN {raw} NOT IN ({_PLACEHOLDERS}) THEN {member} END"
                for raw, member in zip(told, members, strict=True)
            ]
        self.text = _braced(members)
        if len({each.name for each in schema.fields}) < len(schema.fields):
            self.proofs.append("false")

    def _member(self, each: Field, at: str) -> str:
        """Give SQL of a comma, a field's name and its value; NULL where the field is absent."""
        name = quoted(f",{json.dumps(each.name, ensure_ascii=False)}:")
        return f"{name} || {self._value(each, at + pointer(each.name))}"

    def _value(self, each: Field, path: str) -> str:
        raw = self._layers.text(path)
        if not needs_care(each):
            return raw
        if each.logical in (DECIMAL, VARIABLE_DECIMAL):
            return self._decimal(each, path, raw)
        if each.logical in EPOCHS:
            return self._epoch(raw, *EPOCHS[each.logical])
        if each.logical in UTC_TEXTS:
            self._prove(raw, f"starts_with({raw}, '\"')")
            return f"regexp_replace({raw}, '(Z|\\+00:00)\"$', '\"')"
        if each.kind == "struct":
            self._prove(raw, f"starts_with({raw}, '{{')")
            return _present(raw, _braced([self._member(inner, path) for inner in each.fields]))
        self._prove(raw, "false")
        return raw

    def _decimal(self, each: Field, path: str, raw: str) -> str:
        """Base64 of a big-endian two's complement, divided by ten to the scale."""
        fixed, column = each.logical == DECIMAL, self._layers.column
        data = raw if fixed else self._layers.text(f"{path}/value")
        scale = f"{each.scale}" if fixed else column(0, _scale(self._layers.text(f"{path}/scale")))
        hexed = column(
            0,
            f"CASE WHEN {data} LIKE '\"%' THEN hex(try(from_base64(substr({data}, 2, strlen({data}) - 2)))) END",
        )
        self._prove(raw, f"strlen({hexed}) BETWEEN 2 AND {_MOST_DIGITS} AND {scale} BETWEEN 0 AND 38")
        digits = column(
            1,
            f"CASE WHEN strlen({hexed}) <= {_FEW_DIGITS} THEN {_magnitude(hexed, 'BIGINT')} "
            f"WHEN strlen({hexed}) <= {_MOST_DIGITS} THEN {_magnitude(hexed, 'HUGEINT')} END",
        )
        padded = column(
            2, f"CASE WHEN strlen({digits}) > {scale} THEN {digits} ELSE lpad({digits}, {scale} + 1, '0') END"
        )
        whole = f"CASE WHEN {hexed} >= '8' THEN '-' ELSE '' END || left({padded}, strlen({padded}) - {scale})"
        fraction = f"|| CASE WHEN {scale} > 0 THEN '.' || right({padded}, {scale}) ELSE '' END" if scale != "0" else ""
        return _present(raw, f"'\"' || {whole} {fraction} || '\"'")

    def _epoch(self, raw: str, what: str, unit: int) -> str:
        """A number since the epoch or midnight as ISO text."""
        number = self._layers.column(0, f"try_cast({raw} AS BIGINT)")
        low, high = _limits(what, unit)
        inside = f"{number} BETWEEN {low} AND {high}"
        self._prove(raw, f"{inside} AND NOT contains({raw}, '.')")
        moment = f"make_timestamp_ns({number})" if unit == 10**9 else f"make_timestamp({number} * {10**6 // unit})"
        moment = f"(DATE '1970-01-01' + {number}::INTEGER)" if what == "date" else moment
        shown = f"CASE WHEN {inside} THEN {moment}::VARCHAR END"
        text = {"date": shown, "time": f"substr({shown}, 12)", "timestamp": f"replace({shown}, ' ', 'T')"}[what]
        return _present(raw, f"'\"' || {text} || '\"'")

    def _prove(self, raw: str, proof: str) -> None:
        self.proofs.append(f"({raw} IS NULL OR {raw} = 'null' OR coalesce({proof}, false))")


def _present(raw: str, value: str) -> str:
    return f"CASE WHEN {raw} = 'null' THEN 'null' WHEN {raw} IS NOT NULL THEN {value} END"


def _braced(members: Sequence[str]) -> str:
    """Give SQL of an object; members that are NULL are left out."""
    return f"'{{' || substr(concat({', '.join(members) or chr(39) * 2}), 2) || '}}'"


def _scale(raw: str) -> str:
    """Give SQL of a decimal's own scale; NULL for one that no column has."""
    return f"CASE WHEN try_cast({raw} AS INTEGER) BETWEEN 0 AND 38 THEN try_cast({raw} AS INTEGER) END"


def _magnitude(hexed: str, kind: str) -> str:
    """Give SQL of the digits of a two's complement without its sign, which is in the first bit."""
    sign = f"CASE WHEN {hexed} >= '8' THEN 1::{kind} << (4 * strlen({hexed}))::INTEGER ELSE 0 END"
    return f"abs(try_cast('0x' || {hexed} AS {kind}) - {sign})::VARCHAR"


def _limits(what: str, unit: int) -> tuple[int, int]:
    """Give the numbers, both included, that ISO text can tell and DuckDB can hold."""
    if what == "date":
        return _FIRST_DAY, _LAST_DAY
    low, high = (0, _DAY_SECONDS) if what == "time" else (_FIRST_DAY * _DAY_SECONDS, (_LAST_DAY + 1) * _DAY_SECONDS)
    limit = _NANO_LIMIT if unit == 10**9 else 2**63 - 1
    return max(low * unit, -limit), min(high * unit - 1, limit)
