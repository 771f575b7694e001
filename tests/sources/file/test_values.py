import itertools
import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from calve.sources.file import values
from calve.sources.file.rows import Rows
from calve.sources.file.values import read_values
from sources.file.texts import Pieces, events, table

STRINGS = st.text(st.sampled_from('{}[]",\\:ab\té\u2028'))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | STRINGS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(STRINGS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.lists(st.dictionaries(STRINGS, JSON, max_size=3), max_size=5)
LAYOUTS = st.sampled_from([{}, {"indent": 1}, {"separators": (",", ":")}, {"ensure_ascii": False}])


def in_pieces(text: bytes, ends: list[int]) -> Pieces:
    places = sorted({0, len(text), *(end % (len(text) + 1) for end in ends)})
    return Pieces([text[start:end] for start, end in itertools.pairwise(places)])


@given(OBJECTS, LAYOUTS)
def test_an_array_gives_its_elements(found: list[Any], layout: dict[str, Any]) -> None:
    text = json.dumps(found, **layout).encode()
    assert [json.loads(event) for event in events(read_values(Pieces([text]), Rows("f")))] == found


@given(OBJECTS, LAYOUTS, st.lists(st.integers(0, 1000)))
def test_elements_are_the_same_wherever_blocks_end(found: list[Any], layout: dict[str, Any], ends: list[int]) -> None:
    text = json.dumps(found, **layout).encode()
    rows = table(read_values(in_pieces(text, ends), Rows("f")))
    assert [json.loads(event) for event in rows["event"]] == found
    assert rows["file_row"] == list(range(1, len(found) + 1))


@given(OBJECTS, LAYOUTS, st.lists(st.integers(0, 1000)))
def test_values_one_after_another_are_events(found: list[Any], layout: dict[str, Any], ends: list[int]) -> None:
    assume("indent" not in layout or (found and found[0]))  # a first line that is whole makes the file NDJSON
    text = "\n".join(json.dumps(value, **layout) for value in found).encode()
    rows = table(read_values(in_pieces(text, ends), Rows("f")))
    assert [json.loads(event) for event in rows["event"]] == found
    assert set(rows["malformed"]) <= {None}


@given(OBJECTS, st.data())
def test_a_cut_array_gives_whole_elements_and_one_reject(found: list[Any], data: st.DataObject) -> None:
    text = json.dumps(found).encode()
    cut = data.draw(st.integers(1, len(text) - 1))
    rows = table(read_values(Pieces([text[:cut]]), Rows("f")))
    whole = [json.loads(event) for event in rows["event"][:-1]]
    assert whole == found[: len(whole)]
    assert [reason is None for reason in rows["malformed"]] == [True] * len(whole) + [False]


def test_an_array_under_a_key_is_found_at_the_top_only() -> None:
    text = b'{"a": {"k": [1]}, "x": "\\"k\\": [", "k" : [{"id": 1}, {"id": 2}], "z": [3]}'
    rows = table(read_values(Pieces([text]), Rows("f"), "k"))
    assert rows["event"] == [b'{"id": 1}', b'{"id": 2}']
    assert rows["malformed"] == [None, None]


def test_a_missing_key_is_one_reject() -> None:
    rows = table(read_values(Pieces([b'{"a": []}']), Rows("f"), "k"))
    assert rows["malformed"] == ["The file f has no array under the key k"]


def test_lines_in_a_json_file_fail_alone() -> None:
    rows = table(read_values(Pieces([b'{"a":1}\n{"b":\n{"c":3}\n']), Rows("f")))
    assert rows["event"] == [b'{"a":1}', b'{"b":', b'{"c":3}']


@pytest.mark.parametrize("text", [b"", b"  \n", b"[]", b" [ ] \n", b"\xef\xbb\xbf[]"])
def test_nothing_gives_nothing(text: bytes) -> None:
    assert events(read_values(Pieces([text]), Rows("f"))) == []


def test_text_behind_the_array_is_one_reject() -> None:
    rows = table(read_values(Pieces([b'[{"a":1}] [2]']), Rows("f")))
    assert rows["event"] == [b'{"a":1}', b"[2]"]
    assert rows["malformed"][1] == "The file f continues after the end of its array (after element 1)"


def test_a_value_beyond_the_bound_ends_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "VALUE_BYTES", 100)
    rows = table(read_values(Pieces([b'[{"a":1},{"b":"', b"x" * 200, b'"}, {}]']), Rows("f")))
    assert rows["event"][0] == b'{"a":1}'
    assert len(rows["event"]) == 2
    assert "has a value of more than" in rows["malformed"][1]
