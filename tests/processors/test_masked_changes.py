"""Changes of every format are masked in both images and in keys: the rows at the end are those of the source, masked.

Processors that rename the key after the mask find the row before and the row after, too.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from calve.compiled import events as compiled_events
from calve.compiled import hmac as compiled_hmac
from calve.event.columns import EVENT
from calve.event.envelope.decoder import EnvelopeDecoder, Envelopes
from calve.event.envelope.exact import RequestedAttributes
from calve.event.envelope.shape import OPERATION_ATTRIBUTE
from calve.event.typed import with_text
from calve.processors.chain import compiled
from calve.processors.mask import ColumnMask, MaskColumns
from calve.processors.masking import Masker, Masks
from event.envelope.debezium import envelope, field, wrapped
from processors.chains import chain, plugins

KEY, CANARY = "0123456789abcdef", "canary"
Row = dict[str, Any]
LIFE: list[tuple[str, Row | None, Row | None]] = [
    ("insert", None, {"id": 1, "name": f"{CANARY} 1", "n": "a"}),
    ("insert", None, {"id": 2, "name": f"{CANARY} 2", "n": "a"}),
    ("insert", None, {"id": 4, "name": None, "n": "a"}),
    ("update", {"id": 1, "name": f"{CANARY} 1", "n": "a"}, {"id": 1, "name": f"{CANARY} one", "n": "b"}),
    ("update", {"id": 2, "name": f"{CANARY} 2", "n": "a"}, {"id": 3, "name": f"{CANARY} 2", "n": "b"}),
    ("delete", {"id": 1, "name": f"{CANARY} one", "n": "b"}, None),
]
"""Changes: the row before, and the row after."""
END = [(3, f"{CANARY} 2", "b"), (4, None, "a")]


def hashed(value: Any) -> str | None:
    return None if value is None else hmac.new(KEY.encode(), str(value).encode(), hashlib.sha256).hexdigest()


def debezium(operation: str, before: Row | None, after: Row | None) -> Row:
    return envelope(operation[0].replace("i", "c"), before, after)


def with_schema(operation: str, before: Row | None, after: Row | None) -> Row:
    columns = [field("id", "int64"), field("name", "string"), field("n", "string")]
    return wrapped(columns, debezium(operation, before, after))


def mongodb(operation: str, before: Row | None, after: Row | None) -> Row:
    texts = [row and json.dumps({"_id": row["id"], **row}) for row in (before, after)]
    return {**envelope(operation[0].replace("i", "c"), *texts, connector="mongodb", collection="c")}


def maxwell(operation: str, before: Row | None, after: Row | None) -> Row:
    old = {"old": {name: value for name, value in (before or {}).items() if value != (after or {}).get(name)}}
    return {"database": "d", "table": "t", "type": operation, "data": after or before, **(old if after else {})}


def dms(operation: str, before: Row | None, after: Row | None) -> Row:
    image = {"before-image": before} if before and after else {}
    return {"data": after or before, **image, "metadata": {"operation": operation, "table-name": "t"}}


FORMS: dict[str, tuple[str, Callable[[str, Row | None, Row | None], Row]]] = {
    "debezium": ("debezium", debezium),
    "debezium with its schema": ("debezium", with_schema),
    "mongodb": ("debezium", mongodb),
    "maxwell": ("maxwell", maxwell),
    "dms": ("dms", dms),
}
RENAME = {"rename_keys": {"entries": [{"from_key": "id", "to_key": "person"}]}}


@pytest.mark.parametrize("has_core", [True, False])
@pytest.mark.parametrize("action", ["hash", "format"])
@pytest.mark.parametrize("form", FORMS)
def test_rows_at_the_end_are_those_of_the_source_masked(
    form: str, action: Any, has_core: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_core:
        for module in (compiled_events, compiled_hmac):
            monkeypatch.setattr(module, "load", lambda: None)
    shape, written = FORMS[form]
    life = LIFE[:4] + LIFE[5:] if form == "mongodb" else LIFE  # a document keeps its _id
    values = [json.dumps(written(*change)).encode() for change in life]
    keys = [json.dumps({"id": str((after or before or {})["id"])}) for _, before, after in life]
    processors = compiled(plugins(RENAME), ())
    assert processors
    assert processors.effects
    wanted = RequestedAttributes(frozenset(), processors.effects.sources(["person"]))
    decoded = EnvelopeDecoder(Envelopes(shape, wanted)).decode(pa.table({EVENT: values, "kafka_key": keys}))
    assert not len(decoded.rejects)
    columns = [ColumnMask(names=["id", "_id"], action="hash"), ColumnMask(names=["name"], action=action)]
    masked = Masker(Masks((MaskColumns(columns=columns, key=KEY),), ("kafka_key",))).mask(decoded.rows)
    assert CANARY not in str(masked.rows.to_pydict())
    rows = chain(RENAME).run(masked.rows).rows
    table: dict[str, tuple[Any, ...]] = {}
    for operation, text in zip(rows[OPERATION_ATTRIBUTE].to_pylist(), with_text(rows)[EVENT].to_pylist(), strict=True):
        row = json.loads(text)
        key = row.get("person", row.get("_id"))
        if operation == "delete":
            del table[key]
        else:
            table[key] = (row["name"], row["n"])
    end = [(2, f"{CANARY} 2", "a"), (4, None, "a")] if form == "mongodb" else END
    assert table == {
        hashed(id): (hashed(name) if action == "hash" else name and "*" * len(name), n) for id, name, n in end
    }
