"""The program of the compiled core does what the processors in Python do, byte for byte, or leaves the event to them."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest

from calve.compiled import events as core
from kit.compiled_core import needs_core
from kit.examples import examples
from processors import test_random
from processors.chains import Ran, chain, run

KNOWN: list[dict[str, Any]] = [
    {"add_entries": {"entries": [{"key": "a", "value": [1, {"b": 1.5}], "overwrite_if_key_exists": True}]}},
    {"add_entries": {"entries": [{"key": "n", "value": 'é"\\\n', "add_when": "/a != null"}, {"key": "b", "value": 1}]}},
    {"add_entries": {"entries": [{"key": "m", "format": "${a}-${m}\t${z}", "overwrite_if_key_exists": True}]}},
    {"add_entries": {"entries": [{"key": "f", "format": "${m}"}, {"key": "p", "value_expression": "/z"}]}},
    {"add_entries": {"entries": [{"key": "a", "value_expression": "/m", "overwrite_if_key_exists": True}]}},
    {"copy_values": {"entries": [{"from_key": "m", "to_key": "a"}, {"from_key": "a", "to_key": "q"}]}},
    {"copy_values": {"entries": [{"from_key": "a", "to_key": "m", "overwrite_if_to_key_exists": True}]}},
    {"rename_keys": {"entries": [{"from_key": "a", "to_key": "b"}, {"from_key": "b", "to_key": "m"}]}},
    {"rename_keys": {"entries": [{"from_key": "m", "to_key": "a", "overwrite_if_to_key_exists": True}]}},
    {"rename_keys": {"entries": [{"from_key": "a~1b", "to_key": 'q"\\', "rename_when": '/m == "x"'}]}},
    {"delete_entries": {"with_keys": ["b", "a", "b"]}},
    {"delete_entries": {"entries": [{"with_keys": ["o"], "delete_when": "/a > 3"}, {"with_keys": ["l"]}]}},
    {"select_entries": {"include_keys": ["m", "zz", "a", "m", "o"], "select_when": "/b != null"}},
    {"lowercase_string": {"with_keys": ["m", "a"]}},
    {"uppercase_string": {"with_keys": ["m", "z"]}},
    {"trim_string": {"with_keys": ["m", "a"]}},
    {"truncate": {"entries": [{"source_keys": ["m", "l"], "length": 2}]}},
    {
        "truncate": {
            "entries": [{"source_keys": ["m", "o"], "start_at": 1, "recursive": True, "truncate_when": "/a == 3"}]
        }
    },
    {"convert_type": {"key": "a"}},
    {"convert_type": {"keys": ["m", "a"], "type": "long", "tags_on_failure": ["t"]}},
    {"convert_type": {"keys": ["a", "m"], "type": "double", "tags_on_failure": ["d"], "convert_when": "/a != null"}},
    {"convert_type": {"keys": ["a", "m", "z"], "type": "string", "tags_on_failure": ["s"]}},
    {"convert_type": {"keys": ["a", "m"], "type": "boolean", "tags_on_failure": ["b"]}},
    {"drop_events": {"drop_when": '/m == "x" or /a == 9'}},
    {"drop_events": {"drop_when": "/o/a == true"}},
]
NUMBERS = [
    "0", "-0", "7", "200", "-12", "12.0", "12.7", "-0.5", "0.1", "1e5", "1E+2", "125e-1", "0e5", "1.5e300", "1E400", "1e-400",
    "0.00001", "0.0001", "9999999999999999", "10000000000000000", "123456789012345678", "1234567890123456789", "2147483647",
    "2147483648", "-2147483649", "-9223372036854775808", "9223372036854775808", "0.30000000000000004",
    "1.7976931348623157e308", "100000000000000000000000000000000.10",
]  # fmt: skip
STRINGS = [
    *NUMBERS, "", "x", "X", " x ", "x y", "true", "TRUE", "tRuE", "false", "+5", "007", "-", ".5", "5.", " 7 ", "1_0",
    "é", "É", "ß", "İ", "ΑΣ", "\u212a", "\U0001f600X", "a\x00b", "\t a\n", "\x7f", '"', "\\", "/", "\u2028", "٣",
]  # fmt: skip
"""Among them numbers in other digits, and letters whose other case has another length."""


def hostile_text(chance: random.Random) -> str:
    text = json.dumps(chance.choice(STRINGS), ensure_ascii=chance.random() < 0.5)
    return text.replace("x", "\\u0078") if chance.random() < 0.1 else text


def hostile(chance: random.Random) -> str:
    """Return an event with values that are read in more than one way, and now and then one that is none."""
    members = []
    for name in chance.sample(["a", "m", "b", "l", "o", "z", "a/b", "zz", ""], chance.randrange(6)):
        kind = chance.randrange(10)
        if kind < 3:
            value = chance.choice(NUMBERS)
        elif kind < 7:
            value = hostile_text(chance)
        else:
            value = chance.choice(
                ["null", "true", "false", "[]", '[ "abc", 1]', '{"a" : true}', '{ "b":"xyz" }', "[{}]"]
            )
        members.append(f'"{name}"{chance.choice(["", " "])}:{chance.choice(["", " "])}{value}')
    text = "{" + chance.choice([",", ", ", "\n,"]).join(members) + "}"
    match chance.randrange(24):
        case 0:
            return text[:-1]
        case 1:
            return text.replace("{", '{"a":1,"a":"\\ud800",', 1).replace(",}", "}")
        case 2:
            return text.replace('"a"', '"\\u0061"')
        case 3:
            return f"{text[:-1]}, {text[1:]}"
    return text


def seen(ran: Ran) -> Any:
    """Return everything that is known of events, dead letters in any order."""
    processed = ran.processed
    letters = sorted(json.dumps({**one, "timestamp": None}, sort_keys=True) for one in ran.failed)
    return processed.rows.to_pydict(), processed.rows.schema, letters, processed.dropped, processed.added


def without_program(monkeypatch: pytest.MonkeyPatch, chosen: list[dict[str, Any]], *events: str) -> Ran:
    with monkeypatch.context() as patched:
        patched.setattr(core, "program", lambda spec: None)
        return run(chosen, *events)


@needs_core
@pytest.mark.parametrize("seed", range(4))
def test_random_chains_do_the_same_with_the_program_and_without(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(examples(20)):
        chance = random.Random(seed * 10_000 + number)
        chosen = [chance.choice(KNOWN) for _ in range(chance.randrange(1, 6))]
        if chance.random() < 0.3:
            chosen.insert(chance.randrange(len(chosen) + 1), chance.choice(test_random.PROCESSORS))
        events = [
            (hostile if chance.random() < 0.8 else test_random.event)(chance) for _ in range(chance.randrange(1, 40))
        ]
        assert seen(run(chosen, *events)) == seen(without_program(monkeypatch, chosen, *events)), (chosen, events)


@needs_core
@pytest.mark.parametrize("processor", KNOWN, ids=lambda one: str(*one))
def test_the_program_leaves_no_clean_event(processor: dict[str, Any]) -> None:
    program = chain(processor)._program
    events = [b'{"a": 3, "m": "12", "b": false}', b'{"m":"7","z":null}', b"{}"]
    done = program.run(pa.array(events, pa.binary()))
    assert program.processors == 1
    assert done is not None
    assert not done.left.any()
