"""Rows are cut out of envelopes only where they lie, and mean there what a parser finds."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest

from calve.event.envelope import decoder
from calve.event.envelope.decoder import Decoder, Envelopes
from calve.event.envelope.exact import RefusedError, Wanted, decode, text_of
from calve.event.envelope.shape import SHAPES
from calve.event.envelope.slices import Slices, slices
from event.envelope.debezium import envelope, text

WANTED = Wanted(frozenset({"debezium_op", "debezium_source_table"}), frozenset({"id"}))
TOAST = "__debezium_unavailable_value"
STRINGS = [
    *("", "}", "{", '"', "\\", "},", '},"op":"c"', '"after":{', ',"after":{"id":9}', '},"after":{', "\\}", '\\"},"a'),
    *("é", "\n", "null", '{"before":null,"after":{"id":1},"op":"d"}', TOAST, "x" * 40, "[", "],", "😀"),
]


def cut(*values: str) -> Slices:
    return slices(pa.array(values, pa.string()), "before", "after")


def rows(found: Slices, number: int) -> tuple[str | None, str | None]:
    before, _, after, _ = found.parts[number * 4 : number * 4 + 4].to_pylist()
    return before if found.before[number] else None, after if found.after[number] else None


USUAL = {
    '{"before":null,"after":{"id":1},"op":"c"}': (None, '{"id":1}'),
    '{"before":null,"after":{},"source":{"a":{}},"op":"c"}': (None, "{}"),
    '{"before":{"id":1},"after":{"id": 2.50 },"op":"u"}': ('{"id":1}', '{"id": 2.50 }'),
    '{"before":{"id":1},"after":null,"op":"d"}': ('{"id":1}', None),
}
NOT_USUAL = [
    '{"before":null,"after":{"id":{}},"op":"c"}',
    '{"before":null,"after":{"id":"}"},"op":"c"}',
    '{"before":null,"after":{"id":"},"},"op":"c"}',
    '{"before":null,"after":{"id":1}}',
    '{"before":null,"after":{"id":1} ,"op":"c"}',
    '{"before":null,"after":{"id":1},"":"c"}',
    '{"before":null,"after":5,"op":"c"}',
    '{"before":{"x":{},"after":{"id":1},"op":5},"op":"c"}',
    '{"before":{"x":"}"},"after":{"id":1},"op":"u"}',
    '{"before":{"id":1},"after":[],"op":"d"}',
    '{"before":{"id":1,"after":null,"op":"d"}}',
    '{"after":{"id":1},"before":null,"op":"c"}',
    ' {"before":null,"after":{"id":1},"op":"c"}',
    '{"op":"c","before":null,"after":{"id":1}}',
    *("{}", "", "1", '{"before":null', '{"before":{', '{"before":null,"after":{', '{"before":{"id":1},"after":'),
]


def test_rows_in_the_usual_places_are_found() -> None:
    found = cut(*USUAL)
    assert [rows(found, number) for number in range(len(USUAL))] == list(USUAL.values())


@pytest.mark.parametrize("behind", [[], [*USUAL]], ids=["last", "first"])
@pytest.mark.parametrize("odd", NOT_USUAL)
def test_what_is_not_as_usual_is_left_and_disturbs_no_other(odd: str, behind: list[str]) -> None:
    found = cut(*USUAL, odd, *behind)
    wanted = [*USUAL.values(), (None, None), *(USUAL[one] for one in behind)]
    assert [rows(found, number) for number in range(len(wanted))] == wanted


def test_a_part_of_an_array_is_looked_at_alone() -> None:
    found = slices(pa.array([None, *USUAL], pa.string())[2:4], "before", "after")
    assert [rows(found, number) for number in range(2)] == list(USUAL.values())[1:3]


def test_what_is_found_in_json_is_what_a_parser_finds() -> None:
    chosen = random.Random(3)
    values = [spoiled(chosen, written(chosen, made_up(chosen))) for _ in range(20_000)]
    found, told = cut(*values), 0
    for number, value in enumerate(values):
        before, after = rows(found, number)
        if (meant := parsed(value)) is not None and (before, after) != (None, None):
            assert (before and parsed(before)) == meant["before"], value
            assert (after and parsed(after)) == meant["after"], value
            told += 1
    assert told > 5_000


def test_rows_that_are_cut_out_mean_what_one_by_one_means(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen, slow = random.Random(4), []
    values = [written(chosen, made_up(chosen)).encode() for _ in range(5_000)]
    wanted: list[tuple[int, str, Any]] = []
    for number, value in enumerate(values):
        try:
            meant = decode(SHAPES["debezium"], value, None, WANTED)
        except RefusedError:
            continue
        wanted += [(number, one.operation, json.loads(text_of(one.row)), one.metadata["debezium_op"]) for one in meant]
    monkeypatch.setattr(decoder, "decode", lambda *given: slow.append(1) or decode(*given))
    found = Decoder(Envelopes("debezium", WANTED)).decode(pa.table({"event": pa.array(values, pa.binary())})).rows
    names = ("row", "operation", "event", "debezium_op")
    assert wanted == [
        (row, word, json.loads(event), op)
        for row, word, event, op in zip(*(found[name].to_pylist() for name in names), strict=True)
    ]
    assert len(slow) < len(values) // 2


KEYS = [
    ("1", "1", False),
    ("1", "2", True),
    ('"a.e"', '"a.e"', False),
    ('"\\u0061"', '"a"', False),
    ("1", "null", True),
]
KEYS += [("0.10000000000000000001", "0.10000000000000000002", True), ("1e2", "2e2", True), ("null", "5", False)]


@pytest.mark.parametrize(("old", "new", "changes"), KEYS)
def test_a_key_has_changed_where_its_text_has(old: str, new: str, changes: bool) -> None:
    value = f'{{"before":{{"id":{old}}},"after":{{"id":{new}}},"op":"u"}}'.encode()
    found = Decoder(Envelopes("debezium", WANTED)).decode(pa.table({"event": pa.array([value] * 3, pa.binary())})).rows
    assert found["operation"].to_pylist() == (["delete", "update"] if changes else ["update"]) * 3


@pytest.mark.parametrize("number", ["12345678901234.123456789", "0.30000000000000000004", "1.50", "1E5", "-0.0"])
def test_a_number_stays_as_it_was_written(number: str) -> None:
    value = text(envelope("c", None, {"id": 7, "n": "N"})).replace(b'"N"', number.encode())
    [row] = Decoder(Envelopes("debezium", WANTED)).decode(pa.table({"event": pa.array([value])})).rows.to_pylist()
    assert row["event"] == f'{{"id":7,"n":{number}}}'.encode()


def parsed(value: str) -> Any:
    """Read JSON, of a name the first value; None for what is none."""
    try:
        return json.loads(value, object_pairs_hook=first_of)
    except json.JSONDecodeError:
        return None


def first_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(reversed(pairs))


def made_up(chosen: random.Random) -> dict[str, Any]:
    def value(depth: int = 0) -> Any:
        if depth < 2 and chosen.random() < 0.04:
            return chosen.choice([{"after": value(depth + 1), "op": "c"}, [value(depth + 1)], {}])
        return chosen.choice([None, 5, 0.5, True, "plain", "plain", "plain", chosen.choice(STRINGS)])

    def row() -> dict[str, Any]:
        names = [
            "n",
            "text",
            *(["after"] if chosen.random() < 0.05 else []),
            *(["op"] if chosen.random() < 0.05 else []),
        ]
        return {"id": chosen.randrange(2), **{name: value() for name in names}}

    word = chosen.choice("cuuudr")
    made = envelope(word, row() if word in "ud" else None, row() if word != "d" else None, table=chosen.choice(STRINGS))
    if chosen.random() < 0.05:
        made.pop(chosen.choice([*made]))
    if chosen.random() < 0.05:
        made = dict(chosen.sample([*made.items()], len(made)))
    return made


def written(chosen: random.Random, value: dict[str, Any]) -> str:
    separators = (", ", ": ") if chosen.random() < 0.02 else (",", ":")
    return json.dumps(value, separators=separators, ensure_ascii=chosen.random() < 0.3)


def spoiled(chosen: random.Random, value: str) -> str:
    """Change a text where it still may be JSON."""
    if chosen.random() < 0.7:
        return value
    at = chosen.randrange(len(value))
    return chosen.choice([value[:at], value[:at] + chosen.choice('{}",:\\ a') + value[at + chosen.randrange(2) :]])
