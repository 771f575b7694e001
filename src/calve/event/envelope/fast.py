"""Many envelopes at once: one SELECT gives the operation, the row and its proof; what has none is for `exact`.

Where rows can be seen to lie in the bytes (`slices`), they are cut out, and the SELECT gives the rest.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from calve.event import duck
from calve.event.columns import JSON
from calve.event.envelope.exact import Wanted
from calve.event.envelope.layers import Layers, pointer, quoted
from calve.event.envelope.logical import needs_care
from calve.event.envelope.rebuild import Rebuild
from calve.event.envelope.schema import Field
from calve.event.envelope.shape import OPERATION_ATTRIBUTE, SHAPES, UNAVAILABLE, Shape
from calve.event.envelope.slices import slices

__all__ = ["Taken", "cut", "take"]

_Mask = npt.NDArray[np.bool_]
_LAST = 3
"""The layer above those of `Rebuild`."""


class Taken(NamedTuple):
    """What was decoded.

    Attributes:
        good: Which of the envelopes were; the other attributes have one value for each of these.
        rows: The rows as JSON objects (string).
        metadata: The attributes that are wanted, and `operation`.
    """

    good: _Mask
    rows: pa.Array
    metadata: dict[str, pa.Array]


def cut(name: str, texts: pa.Array, schema: Field | None, wanted: Wanted) -> Taken | None:
    """Decode envelopes whose rows can be cut out as they are; arguments and errors are those of `take`.

    Returns:
        None where no row can be: the format or the schema is not made for it.
    """
    shape = SHAPES[name]
    if not shape.whole_before or (schema and needs_care(schema)):
        return None
    names = _asked(shape, wanted)
    found = duck.run(_select_cut(name, names, tuple(sorted(wanted.keys))), events=pa.table({JSON: texts}))
    lie, gone = slices(texts, shape.before[1:], shape.after[1:]), _mask(found["gone"])
    good = _mask(found["ok"]) & np.where(gone, lie.before, lie.after)
    return Taken(good, lie.rows(good, gone), _metadata(shape, found, names, pa.array(good)))


def take(name: str, texts: pa.Array, schema: Field | None, wanted: Wanted, partly: bool = False) -> Taken:
    """Decode envelopes.

    Args:
        name: The format's.
        texts: The envelopes.
        schema: Of their rows, if they tell it.
        wanted: What to give beside the rows.
        partly: Take rows too that lack values which the source did not tell; it needs the schema.

    Raises:
        NoJsonError: A text is no JSON.
    """
    shape = SHAPES[name]
    careful = schema if schema and (partly or needs_care(schema)) else None
    names = _asked(shape, wanted)
    sql = _select(name, (careful, partly), names, tuple(sorted(wanted.keys)))
    found = duck.run(sql, events=pa.table({JSON: texts}))
    good, rows = _mask(found["ok"]), duck.whole(found["row"]).cast(pa.string())
    if careful and shape.whole_before:
        good, rows = _rebuilt(good, rows, _mask(found["raw"]), (careful, partly))
    mask = pa.array(good)
    return Taken(good, rows.filter(mask), _metadata(shape, found, names, mask))


def _asked(shape: Shape, wanted: Wanted) -> tuple[str, ...]:
    return tuple(sorted(wanted.metadata & shape.metadata.keys()))


def _metadata(shape: Shape, found: pa.Table, names: tuple[str, ...], mask: pa.Array) -> dict[str, pa.Array]:
    kinds = {OPERATION_ATTRIBUTE: pa.string()} | {each: shape.metadata[each].kind for each in names}
    return {each: duck.whole(found[each]).filter(mask).cast(kind) for each, kind in kinds.items()}


def _rebuilt(good: _Mask, rows: pa.Array, raw: _Mask, kind: tuple[Field, bool]) -> tuple[_Mask, pa.Array]:
    """Render the rows that deletes name, which the first SELECT gave as they are."""
    raw = raw & good
    if not raw.any():
        return good, rows
    found = duck.run(_rebuild(*kind), events=pa.table({JSON: rows.filter(pa.array(raw))}))
    good = good.copy()
    good[raw] = _mask(found["ok"])
    return good, pc.replace_with_mask(rows, pa.array(raw), duck.whole(found["row"]).cast(pa.string()))


def _mask(column: pa.ChunkedArray) -> _Mask:
    mask: _Mask = np.array(duck.whole(column).to_numpy(zero_copy_only=False), bool)
    return mask


@lru_cache(256)
def _select(name: str, kind: tuple[Field | None, bool], metadata: tuple[str, ...], keys: tuple[str, ...]) -> str:
    """Give the SELECT over a relation `events` with the column `json`.

    Columns: `operation`, `row`, `ok` (the row is proven), `raw` (the row is the one before a delete, as it came), and
    the metadata.
    """
    shape, layers, (schema, partly) = SHAPES[name], Layers(), kind
    operation, before = _operation(shape, layers), layers.text(shape.before)
    if schema:
        rebuilt = Rebuild(schema, shape.after, layers, partly)
        after, proofs = rebuilt.text, rebuilt.proofs
    else:
        after = layers.text(shape.after)
        proofs = [f"starts_with({after}, '{{')"]
    proofs += [_same_key(shape, layers, keys)] if keys else []
    deleted = layers.column(1, f"coalesce({operation} = 'delete' AND {str(shape.whole_before).lower()}, false)")
    row = layers.column(_LAST, f"CASE WHEN {deleted} THEN {before} ELSE {after} END")
    proof = f"CASE WHEN {deleted} THEN starts_with({before}, '{{') ELSE {' AND '.join(proofs)} END"
    told = f"NOT contains({row}, {quoted(UNAVAILABLE)})" if shape.wrapped and not partly else f"{row} IS NOT NULL"
    columns = {
        OPERATION_ATTRIBUTE: operation,
        "row": row,
        "ok": f"coalesce({operation} IS NOT NULL AND ({proof}) AND {told}, false)",
        "raw": deleted,
        **{each: _attribute(shape, each, layers) for each in metadata},
    }
    return layers.select(columns)


@lru_cache(256)
def _select_cut(name: str, metadata: tuple[str, ...], keys: tuple[str, ...]) -> str:
    """The same without the rows; `ok`: the row may be taken as it lies in the text, `gone`: it is a delete's."""
    shape, layers = SHAPES[name], Layers()
    operation = _operation(shape, layers)
    told = f"NOT {layers.look(f'contains(json, {quoted(UNAVAILABLE)})')}"
    gone = layers.column(1, f"coalesce({operation} = 'delete', false)")
    same = f"({gone} OR ({' AND '.join([_same_key(shape, layers, keys), *_unrounded(shape, layers, keys)])}))"
    columns = {
        OPERATION_ATTRIBUTE: operation,
        "ok": f"coalesce({operation} IS NOT NULL AND {told} AND {same if keys else 'true'}, false)",
        "gone": gone,
        **{each: _attribute(shape, each, layers) for each in metadata},
    }
    return layers.select(columns)


@lru_cache(256)
def _rebuild(schema: Field, partly: bool) -> str:
    layers = Layers()
    rebuilt = Rebuild(schema, "", layers, partly)
    return layers.select({"row": rebuilt.text, "ok": f"coalesce({' AND '.join(rebuilt.proofs)}, false)"})


def _operation(shape: Shape, layers: Layers) -> str:
    words = " ".join(f"WHEN {_json(text)} THEN {quoted(meant)}" for text, meant in shape.words.items())
    return layers.column(0, f"CASE {layers.text(shape.operation)} {words} END")


def _json(text: str) -> str:
    return quoted(f'"{text}"')


def _same_key(shape: Shape, layers: Layers, keys: tuple[str, ...]) -> str:
    """Give SQL of whether an envelope changes none of these columns."""
    changed = []
    for key in keys:
        old, new = layers.text(shape.before + pointer(key)), layers.text(shape.after + pointer(key))
        changed.append(f"coalesce({old} <> 'null' AND {old} <> {new}, false)")
    return f"NOT ({' OR '.join(changed)})"


def _unrounded(shape: Shape, layers: Layers, keys: tuple[str, ...]) -> list[str]:
    """Give SQL of whether these columns' values are no fractions, of which two can look the same."""
    olds = [layers.text(shape.before + pointer(key)) for key in keys]
    return [
        f"coalesce(starts_with({old}, '\"') OR NOT (contains({old}, '.') OR contains({old}, 'e')), true)"
        for old in olds
    ]


def _attribute(shape: Shape, name: str, layers: Layers) -> str:
    attribute = shape.metadata[name]
    text = layers.text(attribute.path)
    return f"json_extract_string({text}, '$')" if attribute.kind == pa.string() else f"try_cast({text} AS BIGINT)"
