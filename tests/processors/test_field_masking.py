"""Fields of texts that the compiled core takes out and writes back are masked as in Python, byte for byte."""

from __future__ import annotations

import random
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from calve.event.columns import EVENT, JSON
from calve.event.validate_json import validated
from calve.processors.field_masking import FieldMasking
from calve.processors.mask import ColumnMask, MaskColumns
from calve.processors.masking import MaskedRows, Masker, Masks
from kit.compiled_core import needs_core
from kit.examples import examples
from processors.test_program import hostile

KEY = "0123456789abcdef"
NAMES = ["a", "A", "m", "b", "l", "o", "z", "a/b", "zz", "new", "é"]
PATTERNS = ["*", "?", "*b*", "o.a", "l.*", "[a-m]"]
OPTIONS: list[dict[str, Any]] = [
    {"action": "hash"},
    {"action": "null"},
    {"action": "drop"},
    {"action": "fixed", "value": 'é"\\\n\0'},
    {"action": "format", "keep_first": 1, "character": '"'},
    {"action": "year"},
    {"action": "month"},
    {"action": "round", "to": 5},
]
DATES = ["2026-11-28", "0000-00-00", "2026-11-28\n", "٢026-11-28", "2026-11-28T01:02:03.5Z"]


def masks(chance: random.Random) -> Masks:
    names = NAMES if chance.random() < 0.6 else [*NAMES, *PATTERNS]
    options = OPTIONS[: len(OPTIONS) if chance.random() < 0.4 else 5]  # the last ones fail for most values
    entries = [
        ColumnMask(names=chance.sample(names, chance.randrange(1, 4)), **chance.choice(options))
        for _ in range(chance.randrange(1, 4))
    ]
    encoding: Any = chance.choice(["hex", "base64"])
    return Masks((MaskColumns(columns=entries, key=KEY, encoding=encoding), MaskColumns(columns=entries[:1], key=KEY)))


def event(chance: random.Random) -> str:
    if chance.random() < 0.2:
        return f'{{"a":"{chance.choice(DATES[:1] if chance.random() < 0.8 else DATES)}","m":{chance.randrange(99)}}}'
    return hostile(chance)


def seen(masked: MaskedRows) -> Any:
    return [(table.schema, table.to_pylist()) for table in masked]


@needs_core
@pytest.mark.parametrize("seed", range(4))
def test_random_masks_give_the_same_by_the_core_and_without(seed: int) -> None:
    for number in range(examples(30)):
        chance = random.Random(seed * 10_000 + number)
        chosen = masks(chance)
        events = pa.table({EVENT: pa.array([event(chance).encode() for _ in range(chance.randrange(40))], pa.binary())})
        by_core, exact = Masker(chosen), Masker(chosen)
        for table in (events, events, validated(events).rows.select([EVENT, JSON])):
            with mock.patch.object(FieldMasking, "mask", return_value=None):
                expected = exact.mask(table)
            assert seen(by_core.mask(table)) == seen(expected), (chosen, table)


@needs_core
def test_the_core_leaves_no_plain_event() -> None:
    entries = [ColumnMask(names=[name], **options) for name, options in zip("abcdefgh", OPTIONS, strict=True)]
    masks = Masks((MaskColumns(columns=[*entries, ColumnMask(names=["x.*"], action="drop")], key=KEY),))
    text = b'{"a":"\xc3\xa9\\"","b":1,"c":true,"d":-1.5,"e":"4111","f":"2026-11-28","g":"2026-11-28","h":17,"x":"y"}'
    with mock.patch("calve.processors.masking.decode_event", side_effect=AssertionError):
        rows = Masker(masks).mask(pa.table({EVENT: [text, b"{}", text.replace(b'"b"', b'"new" : null , "b"')]})).rows
    assert rows[EVENT][1].as_py() == b"{}"
    assert rows[EVENT][2].as_py() == rows[EVENT][0].as_py().replace(b'"b"', b'"new":null,"b"')
