"""What is decoded equals what Protobuf's own library reads, with and without the compiled core."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from calve.compiled import events as core
from calve.serde.format import DecodedValues
from calve.serde.protobuf.decoder import MessageDecoder
from calve.serde.protobuf.plan import plan
from calve.serde.protobuf.schema import Schema
from kit.compiled_core import needs_core
from kit.examples import examples
from serde.protobuf.official import message_class, rows_of, same, values
from serde.protobuf.random_messages import mutated, random_message

_SCALARS = [
    "double",
    "float",
    "int32",
    "int64",
    "uint32",
    "uint64",
    "sint32",
    "sint64",
    "fixed32",
    "fixed64",
    "sfixed32",
    "sfixed64",
    "bool",
    "string",
    "bytes",
]
_NESTED = """
enum Color { {first} RED = 5; CRIMSON = 5; DARK = -1; FAR = 1000000; option allow_alias = true; }
message Inner { {label} int32 n = 1; {label} string s = 2; repeated Inner2 deeper = 3; {label} Inner2 one = 500; }
message Inner2 { repeated sint64 numbers = 1; map<string, int32> counts = 2; {label} bool flag = 3; }
enum Shade { PLAIN = 0; DEEP = 3; }
message None {}
"""
_BODY = """
  {scalars}
  {label} Color color = 100; repeated Color colors = 101; {label} Inner inner = 102; repeated Inner inners = 103;
  oneof choice { int64 whole = 110; string word = 111; Inner part = 112; Color shade = 113;
    google.protobuf.Timestamp moment = 114; google.protobuf.StringValue wrapped = 115; }
  map<string, string> texts = 120; map<int32, Inner> parts = 121; map<bool, Shade> shades = 122;
  map<uint64, double> rates = 123; map<sfixed32, bytes> blobs = 124; map<fixed64, google.protobuf.Timestamp> at = 125;
  {label} google.protobuf.Timestamp time = 300; repeated google.protobuf.Timestamp times = 301;
  {label} google.protobuf.Duration span = 302; {label} None none = 303; repeated None nones = 304;
  {label} google.protobuf.Struct object = 310; {label} google.protobuf.Value any = 311;
  {label} google.protobuf.ListValue list = 312; map<string, google.protobuf.Int32Value> sizes = 313;
  {wrappers}
"""
_IMPORTS = "".join(
    f'import "google/protobuf/{name}.proto";' for name in ("timestamp", "duration", "struct", "wrappers")
)
_WRAPPED = ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")


def _file(syntax: str, label: str, first: str) -> str:
    scalars = [f"{label} {kind} {kind}_one = {at};" for at, kind in enumerate(_SCALARS, 1)]
    scalars += [f"repeated {kind} {kind}_many = {at};" for at, kind in enumerate(_SCALARS, 20)]
    opposite = "true" if syntax == "proto2" else "false"
    packable = [kind for kind in _SCALARS if kind not in ("string", "bytes")]
    scalars += [f"repeated {kind} {kind}_other = {at} [packed={opposite}];" for at, kind in enumerate(packable, 40)]
    scalars += [f"optional {kind} {kind}_maybe = {at};" for at, kind in enumerate(_SCALARS, 60)]
    if syntax == "proto2":
        scalars += _DEFAULTS
    wrappers = [
        f"{label} google.protobuf.{kind}Value w_{kind} = {at}; repeated google.protobuf.{kind}Value ws_{kind} = {at + 20};"
        for at, kind in enumerate(_WRAPPED, 400)
    ]
    body = f"message All {{ {_BODY} }}" + _NESTED
    for name, text in {
        "label": label,
        "first": first,
        "scalars": "\n".join(scalars),
        "wrappers": "\n".join(wrappers),
    }.items():
        body = body.replace(f"{{{name}}}", text)
    return f'syntax = "{syntax}"; package demo; {_IMPORTS} {body}'


_DEFAULTS = [
    "optional double d_double = 80 [default = -1.5e3];",
    "optional float d_float = 81 [default = 0.1];",
    "optional float d_inf = 82 [default = -inf];",
    "optional double d_nan = 83 [default = nan];",
    "optional int32 d_int32 = 84 [default = -0x10];",
    "optional uint64 d_uint64 = 85 [default = 18446744073709551615];",
    "optional int64 d_int64 = 86 [default = -9223372036854775808];",
    "optional bool d_bool = 87 [default = true];",
    r"""optional string d_string = 88 [default = 'a"' "\303\xa9\n\u00e9"];""",
    r"""optional bytes d_bytes = 89 [default = "\0\xff\?"];""",
    "optional Color d_color = 90 [deprecated = true, default = DARK];",
    "optional uint32 d_octal = 91 [default = 017];",
]
FILES = {
    "proto3": _file("proto3", "", "NO_COLOR = 0;"),
    "proto2": _file("proto2", "optional", "BLUE = 7;"),
}


def decoder(text: str) -> MessageDecoder:
    schema = Schema(text, {})
    return MessageDecoder(plan(schema, schema.message((0,))))


def without_core(text: str) -> MessageDecoder:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(core, "values", lambda *_: None)
        return decoder(text)


DECODERS = {name: decoder(text) for name, text in FILES.items()}
EXACT = {name: without_core(text) for name, text in FILES.items()}
CLASSES = {name: message_class({"all.proto": text}, "demo.All") for name, text in FILES.items()}
SYNTAXES = pytest.mark.parametrize("syntax", FILES)


def rows(found: DecodedValues, count: int) -> list[Any]:
    """Return each value's row, or the reason why it has none."""
    by_row: list[Any] = [None] * count
    for part in found.parts:
        part.rows.validate(full=True)
        for at, row in zip(part.at.tolist(), rows_of(part.rows), strict=True):
            by_row[at] = row
    for fault in found.faults:
        assert by_row[fault.row] is None
        by_row[fault.row] = fault.reason
    assert None not in by_row
    return by_row


def wanted(kind: type[Message], encoded: bytes) -> dict[str, Any] | str:
    """Return the row of a message, or the first word of why Protobuf's library has no JSON for it."""
    try:
        return values(kind.FromString(encoded))
    except ValueError as error:
        return str(error).split()[0]


@SYNTAXES
@settings(max_examples=examples(15), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_messages_are_what_protobuf_itself_reads(syntax: str, seed: int) -> None:
    rnd, kind = random.Random(seed), CLASSES[syntax]
    messages = [random_message(rnd, kind, rnd.choice([0.02, 0.3, 1])) for _ in range(4)]
    encoded = [each.SerializeToString() for each in messages]
    encoded += [b"".join(rnd.choices(encoded, k=3)) for _ in range(3)]  # a message after another one is joined with it
    expected = [wanted(kind, each) for each in encoded]
    for decoders in (DECODERS, EXACT):
        found = rows(decoders[syntax].decode(pa.array(encoded, pa.binary()), 0), len(encoded))
        for row, whole in zip(found, expected, strict=True):
            if isinstance(row, str) or isinstance(whole, str):
                assert (row, whole) == ("field span: a duration that Protobuf does not allow", "Duration")
            else:
                assert same(row, whole), {
                    name: (row[name], whole[name]) for name in row if not same(row[name], whole[name])
                }


@needs_core
@SYNTAXES
@settings(max_examples=examples(15), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_broken_messages_are_decoded_as_the_exact_decoder_decodes_them(syntax: str, seed: int) -> None:
    rnd, kind = random.Random(seed), CLASSES[syntax]
    encoded = [random_message(rnd, kind, rnd.choice([0.02, 0.3])).SerializeToString() for _ in range(5)]
    broken = pa.array([mutated(rnd, each, rnd.choice(encoded)) for each in encoded * 6], pa.binary())
    fast, exact = (rows(decoders[syntax].decode(broken, 0), len(broken)) for decoders in (DECODERS, EXACT))
    assert repr(fast) == repr(exact)
