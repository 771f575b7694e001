r"""Kafka Connect's wrapper, `{"schema":…,"payload":…}`: opened without parsing the schema again for each event.

Events of one schema begin with the same bytes, up to the payload. Each distinct beginning is parsed once, with `null}`
behind it: if that is an object of the two keys, then what follows the beginning in any event is the payload and the
closing brace.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from calve.event.envelope.schema import Field, row_schema
from calve.event.strict import MalformedError, parse_object

__all__ = ["Wrappers"]

_Rows = npt.NDArray[np.int64]
_PAYLOAD = '"payload":'
_WRAPPED = r'^\s*\{\s*"schema"\s*:'
_PLAIN = '{"before"'
_REMEMBERED = 1_000


class Wrappers:
    """The beginnings that one task has met."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Field | None] | None] = {}
        self._usual: tuple[str, Field | None] | None = None

    def open(self, texts: pa.Array) -> list[tuple[_Rows, pa.Array, Field | None]]:
        """Divide texts by the schema of their rows: positions, payloads, schema.

        A text that is not wrapped is its own payload; one with a wrapper that is not as usual is in no part.
        """
        if self._usual and pc.all(pc.and_(pc.starts_with(texts, self._usual[0]), pc.ends_with(texts, "}"))).as_py():
            inside = pc.binary_slice(texts.cast(pa.binary()), len(self._usual[0].encode()), -1).cast(pa.string())
            return [(np.arange(len(texts)), inside, self._usual[1])]
        if pc.all(pc.starts_with(texts, _PLAIN)).as_py():
            return [(np.arange(len(texts)), texts, None)]
        wrapped = pc.match_substring_regex(texts, _WRAPPED).to_numpy(zero_copy_only=False)
        plain = np.flatnonzero(~wrapped)
        found = [(plain, texts.take(pa.array(plain)), None)] if 0 < len(plain) < len(texts) else []
        if not wrapped.any():
            return [(plain, texts, None)]
        at = np.flatnonzero(wrapped)
        return found + self._wrapped(at, texts if wrapped.all() else texts.take(pa.array(at)))

    def _wrapped(self, at: _Rows, texts: pa.Array) -> list[tuple[_Rows, pa.Array, Field | None]]:
        halves = pc.split_pattern(texts, _PAYLOAD, max_splits=1)
        two = (pc.list_value_length(halves).to_numpy() == 2) & pc.ends_with(texts, "}").to_numpy(zero_copy_only=False)
        if not two.all():
            at, halves = at[two], halves.filter(pa.array(two))
        beginnings = pc.list_element(halves, 0).dictionary_encode() if len(at) else pa.array([], pa.string())
        if not len(at):
            return []
        payloads = pc.binary_slice(pc.list_element(halves, 1).cast(pa.binary()), 0, -1).cast(pa.string())
        groups: dict[Field | None, list[int]] = {}
        for code, beginning in enumerate(beginnings.dictionary.to_pylist()):
            told = self._read(beginning)
            if told is not None:
                groups.setdefault(told[0], []).append(code)
        if len(groups) == len(beginnings.dictionary) == 1:
            self._usual = (f"{beginnings.dictionary[0]}{_PAYLOAD}", next(iter(groups)))
        codes = beginnings.indices.to_numpy()
        return [_part(at, payloads, np.isin(codes, chosen), schema) for schema, chosen in groups.items()]

    def _read(self, beginning: str) -> tuple[Field | None] | None:
        """Give the schema of the rows (None: it does not tell), or None where this is no beginning."""
        if beginning not in self._known:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[beginning] = _parse(beginning)
        return self._known[beginning]


def _parse(beginning: str) -> tuple[Field | None] | None:
    try:
        value = parse_object(f"{beginning}{_PAYLOAD}null}}")
        return (row_schema(value.get("schema")),) if value.keys() == {"schema", "payload"} else None
    except (MalformedError, RecursionError):
        return None


def _part(
    at: _Rows, payloads: pa.Array, mask: npt.NDArray[np.bool_], schema: Field | None
) -> tuple[_Rows, pa.Array, Field | None]:
    return (at, payloads, schema) if mask.all() else (at[mask], payloads.filter(pa.array(mask)), schema)
