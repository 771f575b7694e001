import itertools
import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from calve.sources.file import values
from calve.sources.file.rows import FileBatches
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
    assert [json.loads(event) for event in events(read_values(Pieces([text]), FileBatches("f")))] == found


@given(OBJECTS, LAYOUTS, st.lists(st.integers(0, 1000)))
def test_elements_are_the_same_wherever_blocks_end(found: list[Any], layout: dict[str, Any], ends: list[int]) -> None:
    text = json.dumps(found, **layout).encode()
    rows = table(read_values(in_pieces(text, ends), FileBatches("f")))
    assert [json.loads(event) for event in rows["event"]] == found
    assert rows["file_row"] == list(range(1, len(found) + 1))


@given(OBJECTS, LAYOUTS, st.lists(st.integers(0, 1000)))
def test_values_one_after_another_are_events(found: list[Any], layout: dict[str, Any], ends: list[int]) -> None:
    assume("indent" not in layout or (found and found[0]))  # a first line that is whole makes the file NDJSON
    text = "\n".join(json.dumps(value, **layout) for value in found).encode()
    rows = table(read_values(in_pieces(text, ends), FileBatches("f")))
    assert [json.loads(event) for event in rows["event"]] == found
    assert set(rows["malformed"]) <= {None}


@given(OBJECTS, st.data())
def test_a_cut_array_gives_whole_elements_and_one_reject(found: list[Any], data: st.DataObject) -> None:
    text = json.dumps(found).encode()
    cut = data.draw(st.integers(1, len(text) - 1))
    rows = table(read_values(Pieces([text[:cut]]), FileBatches("f")))
    whole = [json.loads(event) for event in rows["event"][:-1]]
    assert whole == found[: len(whole)]
    assert [reason is None for reason in rows["malformed"]] == [True] * len(whole) + [False]


def test_an_array_under_a_key_is_found_at_the_top_only() -> None:
    text = b'{"a": {"k": [1]}, "x": "\\"k\\": [", "k" : [{"id": 1}, {"id": 2}], "z": [3]}'
    rows = table(read_values(Pieces([text]), FileBatches("f"), "k"))
    assert rows["event"] == [b'{"id": 1}', b'{"id": 2}']
    assert rows["malformed"] == [None, None]


def test_a_missing_key_is_one_reject() -> None:
    rows = table(read_values(Pieces([b'{"a": []}']), FileBatches("f"), "k"))
    assert rows["malformed"] == ["The object has no array under the key k"]


def test_lines_in_a_json_file_fail_alone() -> None:
    rows = table(read_values(Pieces([b'{"a":1}\n{"b":\n{"c":3}\n']), FileBatches("f")))
    assert rows["event"] == [b'{"a":1}', b'{"b":', b'{"c":3}']


@pytest.mark.parametrize("text", [b"", b"  \n", b"[]", b" [ ] \n", b"\xef\xbb\xbf[]"])
def test_nothing_gives_nothing(text: bytes) -> None:
    assert events(read_values(Pieces([text]), FileBatches("f"))) == []


def test_arrays_one_after_another_give_all_their_elements() -> None:
    rows = table(read_values(Pieces([b'[{"a":1}] [{"a":2},{"a":3}]\n[]\n{"a":4} [{"a":5}] x']), FileBatches("f")))
    assert rows["event"] == [b'{"a":1}', b'{"a":2}', b'{"a":3}', b'{"a":4}', b'{"a":5}', b"x"]


def test_text_that_is_no_value_is_an_event_of_its_own() -> None:
    rows = table(read_values(Pieces([b'{\n"a":1} 5, {"a":2}} {"a":{"b":[3]}}] x']), FileBatches("f")))
    assert rows["event"] == [b'{\n"a":1}', b"5,", b'{"a":2}', b"}", b'{"a":{"b":[3]}}', b"] x"]


def test_a_value_beyond_the_bound_ends_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "VALUE_BYTES", 100)
    rows = table(read_values(Pieces([b'[{"a":1},{"b":"', b"x" * 200, b'"}, {}]']), FileBatches("f")))
    assert rows["event"][0] == b'{"a":1}'
    assert len(rows["event"]) == 2
    assert "has a value of more than" in rows["malformed"][1]


@pytest.mark.parametrize(
    "text",
    [
        b'{"k":[{"id":1}]}{"k":[{"id":2},{"id":3}]}',
        b'{"k":[{"id":1}]}\n{"k":[{"id":2},{"id":3}]}\n',
        b'{"k":[]}{"k":[{"id":1},{"id":2}]}{"k":[{"id":3}]}',
        b'{"k":[{"id":1}], "k":[{"id":2},{"id":3}]}',
        b'{"k":[{"id":1}],"x":{"k":[{"id":9}]},"\\u006b":[{"id":2},{"id":3}],"z":[4]}',
        b'{"k":[{"id":1}]}\n{\n  "x": [1],\n  "k": [\n    {"id":2},\n    {"id":3}\n  ]\n}\n',
        b'\xef\xbb\xbf \n{"x":"]}","k" : [ {"id":1} , {"id":2},{"id":3} ] }',
        b'{"k":null,"k":[{"id":1}]} {"k":[{"id":2},{"id":3}]}',
    ],
)
@pytest.mark.parametrize("size", [3, 7, 1000])
def test_each_objects_array_under_a_key_is_read(text: bytes, size: int) -> None:
    blocks = [text[at : at + size] for at in range(0, len(text), size)]
    rows = table(read_values(Pieces(blocks), FileBatches("f"), "k"))
    assert [json.loads(event)["id"] for event in rows["event"]] == [1, 2, 3]
    assert (set(rows["malformed"]), rows["file_row"]) == ({None}, [1, 2, 3])


@pytest.mark.parametrize(
    ("text", "reject"),
    [
        (b'{"k":[{"id":1}]}{"k":[{"id":2}]}garbage', (b"garbage", "The text is not a JSON object")),
        (b'{"k":[{"id":1}]}\n{"k":[{"id":2}]}\ngarbage\n', (b"garbage", "The text is not a JSON object")),
        (b'{"k":[{"id":1}]}[{"k":[3]}]{"k":[{"id":2}]}', (b'[{"k":[3]}]', "The value is an array and not an object")),
        (b'{"k":[{"id":1}]}{"x":[{"id":3}]}{"k":[{"id":2}]}', (b'{"x":[{"id":3}]}', "The object has no array under")),
        (b'{"k":[{"id":1}]}\n{"k":{"id":3}}\n{"k":[{"id":2}]}', (b'{"k":{"id":3}}', "The object has no array under")),
        (b'{"k":[{"id":1},{"id":2},{"id"', (b'{"id"', "The file f ends in the middle of its array, after element 2")),
        (b'{"k":[{"id":1},{"id":2}],', (b"", "The file f ends in the middle of an object, after element 2")),
        (
            b'{"k":[{"id":1}]}\n{"k":[{"id":3}\n{"k":[{"id":2}]}\n',
            (b'{"id":3}', "The object ends in the middle of its"),
        ),
    ],
)
def test_what_is_no_object_with_an_array_under_the_key_is_one_reject(text: bytes, reject: tuple[bytes, str]) -> None:
    rows = table(read_values(Pieces([text]), FileBatches("f"), "k"))
    found = list(zip(rows["event"], rows["malformed"], strict=True))
    assert sorted(event for event, reason in found if not reason) == [b'{"id":1}', b'{"id":2}']
    [(event, reason)] = [row for row in found if row[1]]
    assert (event or b"") == reject[0]
    assert reason.startswith(reject[1])


def test_values_of_several_lines_come_among_lines_and_a_bad_line_fails_alone() -> None:
    text = b'{"a":1}\n{\n  "a": [\n    {"b":1}\n  ]\n}\n{"a":\n{"a":3} {"a":4}\nxyz\n{"a":5}\n{\n  "c": [\n  {"a":6}'
    for size in (8, 11, 1000):
        rows = table(read_values(Pieces([text[at : at + size] for at in range(0, len(text), size)]), FileBatches("f")))
        assert [json.loads(event) for event in rows["event"][:2]] == [{"a": 1}, {"a": [{"b": 1}]}]
        assert rows["event"][2:] == [b'{"a":', b'{"a":3}', b'{"a":4}', b"xyz", b'{"a":5}', b'{\n  "c": [\n  {"a":6}']
        assert rows["file_row"] == [1, 2, 7, 8, 8, 9, 10, 11]


def test_a_cut_value_of_several_lines_is_one_reject_with_the_reason() -> None:
    rows = table(read_values(Pieces([b'{"a":1}\n{\n "a":\n  {"b":1},\n  "c'], "is cut"), FileBatches("f")))
    assert rows["event"] == [b'{"a":1}', b'{\n "a":\n  {"b":1},\n  "c']
    assert rows["malformed"] == [None, "The file f is cut"]


def test_arrays_among_lines_give_their_elements() -> None:
    rows = table(
        read_values(
            Pieces([b'{"a":1}\n[{"a":2}, {"a":3}]\n[\n  {"a":4}\n]\n[]\n[{"a":5}\n[\n{"a":6}']), FileBatches("f")
        )
    )
    assert rows["event"] == [b'{"a":1}', b'{"a":2}', b'{"a":3}', b'{"a":4}', b'[{"a":5}\n[', b'{"a":6}']
    assert rows["file_row"] == [1, 2, 2, 3, 7, 9]


def test_of_a_cut_line_the_whole_values_are_events() -> None:
    rows = table(read_values(Pieces([b'{"a":1}\n{"a":2} {"a":3} {"a'], "is cut"), FileBatches("f")))
    assert rows["event"] == [b'{"a":1}', b'{"a":2}', b'{"a":3}', b'{"a']
    assert rows["malformed"] == [None, None, None, "The file f is cut"]


def test_a_cut_value_whose_lines_are_not_indented_is_one_reject() -> None:
    text = b'{"a":1}\n{\n"x":\n{"a":9},\n"y":\n[{"a":8},\n{"a":7}'
    rows = table(read_values(Pieces([text]), FileBatches("f")))
    assert rows["event"] == [b'{"a":1}', text.partition(b"\n")[2]]


@pytest.mark.parametrize("rest", [b"a,b", b'{"a', b"", b'[\n{"b"'])
def test_a_cut_file_of_lines_has_one_reject_with_its_last_line(rest: bytes) -> None:
    rows = table(read_values(Pieces([b'{"a":1}\n' + rest], "is cut"), FileBatches("f")))
    assert (rows["event"], rows["malformed"]) == ([b'{"a":1}', rest or None], [None, "The file f is cut"])


@pytest.mark.parametrize("bad", [b"xyz", b"5", b'{"a":1,}', b'{"a":', b'{"a" 1}'])
@pytest.mark.parametrize("broken", ["is cut", ""])
def test_a_bad_line_before_a_cut_one_is_a_reject_of_its_own(bad: bytes, broken: str) -> None:
    rows = table(read_values(Pieces([b'{"a":1}\n' + bad + b'\n{"b":1,"c'], broken), FileBatches("f")))
    assert rows["event"] == [b'{"a":1}', bad, b'{"b":1,"c']
    assert rows["malformed"] == [None, None, "The file f is cut" if broken else None]
    assert rows["file_row"] == [1, 2, None if broken else 3]


@pytest.mark.parametrize("rest", [b"5", b"tru", b'"a"', b"null"])
@pytest.mark.parametrize("key_name", [None, "k"])
def test_text_without_brackets_at_the_end_of_a_cut_file_is_the_one_reject(rest: bytes, key_name: str | None) -> None:
    for whole in (b"", b'{"k":[]}\n', b'{"k":[]} '):
        rows = table(read_values(Pieces([whole + rest], "is cut"), FileBatches("f"), key_name))
        assert (rows["event"][-1], rows["malformed"][-1]) == (rest, "The file f is cut")
        assert [reason for reason in rows["malformed"] if reason] == ["The file f is cut"]


@pytest.mark.parametrize("end", [b'"\\', b'"\\u12', b"tru", b"-", b"1.", b"1e+", b'"\\ud83d\\'])
@pytest.mark.parametrize("broken", ["is cut", ""])
def test_a_value_of_several_lines_cut_in_a_token_gives_none_of_its_inner_objects(end: bytes, broken: str) -> None:
    value = b'{\n"x":\n{"id":9},\n"y":\n[{"a": ' + end
    rows = table(read_values(Pieces([b'{"a":1}\n' + value], broken), FileBatches("f")))
    assert rows["event"] == [b'{"a":1}', value]


@pytest.mark.parametrize("bad", [b"NaN", b"tru", b"5"])
def test_text_after_the_only_value_behind_a_bad_line_is_a_reject_of_its_own(bad: bytes) -> None:
    rows = table(read_values(Pieces([b'{"a":1}\n{"a":\n{"b":1}\n' + bad + b"\n"]), FileBatches("f")))
    assert rows["event"] == [b'{"a":1}', b'{"a":', b'{"b":1}', bad]


def test_of_a_cut_object_in_a_file_of_lines_the_whole_elements_under_a_key_are_events() -> None:
    rows = table(
        read_values(Pieces([b'{"k":[{"id":1}]}\n{"k":[{"id":2},{"id":3},{"id"'], "is cut"), FileBatches("f"), "k")
    )
    assert rows["event"] == [b'{"id":1}', b'{"id":2}', b'{"id":3}', b'{"id"']
    assert (rows["malformed"], rows["file_row"]) == ([None] * 3 + ["The file f is cut"], [1, 2, 3, None])


def test_an_array_without_its_end_has_no_objects_with_the_key() -> None:
    text = b'{"k":[{"id":1}]}\n[\n\t{\n\t\t"k": [{"id":2}]\n\t}'
    rows = table(read_values(Pieces([text]), FileBatches("f"), "k"))
    assert [event for event, why in zip(rows["event"], rows["malformed"], strict=True) if not why] == [b'{"id":1}']
    assert len(rows["event"]) == 2


LOGS = rb"""{"messageType": "DATA_MESSAGE", "owner": "1234", "n\u0061me": 1.50, "tags": {"a": [1, {"owner": 2}]},
"logEvents": [{"id": "1", "owner": "mine"}, {}, [1], 5], "rest": {}}"""


@given(st.lists(st.integers(0, 400)))
def test_events_under_a_key_get_fields_of_their_object_wherever_blocks_end(ends: list[int]) -> None:
    keys, fields = ["owner", "name", "tags"], b'"owner":"1234","name":1.50,"tags":{"a": [1, {"owner": 2}]}}'
    for text in (LOGS, LOGS.replace(b"\n", b"")):
        rows = table(read_values(in_pieces(text, ends), FileBatches("f"), "logEvents", keys))
        assert rows["event"] == [b'{"id":"1",' + fields, b"{" + fields, b"[1]", b"5"]


def test_each_object_has_its_own_fields_for_its_events() -> None:
    lines = b'{"o":1,"k":[{"a":1}]}\n{"k":[{"a":2}]}\n{"o":3,"k":[{"a":3}],"k":[{"a":4}]}\n'
    rows = table(read_values(Pieces([lines]), FileBatches("f"), "k", ["o"]))
    assert rows["event"] == [b'{"a":1,"o":1}', b'{"a":2}', b'{"a":3,"o":3}', b'{"a":4,"o":3}']


def test_a_field_behind_the_array_of_its_events_is_a_reject() -> None:
    for end, reasons in ((b"}", []), (b',"x', ["The file f is cut"])):
        text, broken = b'{"k":[{"a":1}],"o":{"x":1}' + end, reasons[0][11:] if reasons else ""
        rows = table(read_values(Pieces([text], broken), FileBatches("f"), "k", ["o"]))
        assert rows["event"][:2] == [b'{"a":1}', b'"o":{"x":1}']
        assert rows["malformed"] == [None, "o comes after the array k, whose events lack it", *reasons]
