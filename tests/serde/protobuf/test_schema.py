"""`.proto` files are read as protoc reads them."""

from __future__ import annotations

import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto, FieldDescriptorProto

from calve.serde.protobuf.descriptors import Enum, MessageType
from calve.serde.protobuf.schema import Schema
from calve.serde.protobuf.syntax import parse
from calve.serde.protobuf.tokens import ProtoError
from calve.serde.protobuf.well_known import WELL_KNOWN
from serde.protobuf import official

NASTY = r"""// A comment before the syntax
/* and another; message No {} */ syntax = 'proto' "2"; ; package a.b ;
import public "c.proto"; import weak "google/protobuf/timestamp.proto"; import "google/protobuf/descriptor.proto";
option java_package = "x;y}"; option (deep).er = { a: "}" b < c: 1 > d: [1, 2] };
extend google.protobuf.FieldOptions { optional string mark = 50000; optional Deep deep_mark = 50001; }
extend google.protobuf.FileOptions { optional Deep deep = 50002; }
message Deep { optional string a = 1; optional Deep b = 2; optional int32 c = 3; repeated int32 d = 4; optional Deep er = 5; }
message message {
  optional string optional = 1 [(mark) = "[default = 'no']", deprecated = false, default = "a]," 'b\'' "\x41\102\n"];
  required .a.b.message.enum oneof = 2 [default = extensions];
  map < int32 , a.b.message . package > map = 3;
  enum enum { option allow_alias = true; extensions = -0x7f; reserved 5, 7 to 9, 100 to max; reserved "x"; third = 1 [deprecated = true]; again = 1; }
  message package { message a { message b { optional b b = 1; optional .a.b.message top = 2; } } optional a.b nested = 1; }
  reserved 1000 to 1999; reserved "gone"; extensions 2000 to max;
  oneof choice { option (many) = true; string text = 5; package.a.b inner = 6; c.d.Elsewhere away = 7; }
  repeated fixed64 reserved_ = 8 [packed = true, json_name = "]"];
  extend message { optional int32 extra = 2000; }
  optional float f = 10 [default = -1.5e-3]; optional double d = 11 [default = inf]; optional double e = 12 [default = .5];
  optional int64 octal = 13 [default = -017]; optional bool yes = 14 [default = true]; optional bytes raw = 15 [default = "\377\0"];
  optional google.protobuf.Timestamp time = 16; optional group Group = 17 { optional int32 inside = 1; };
  oneof last { group Other = 18 { optional int32 inside = 1; } }
}
extend google.protobuf.OneofOptions { optional bool many = 50000; }
service Service { rpc Call (message) returns (stream message) { option (deep_call).a = "}"; } rpc Two(message) returns (message); }
extend google.protobuf.MethodOptions { optional Deep deep_call = 50000; }
enum Last { LAST = 0; }
"""
IMPORTED = 'syntax = "proto3"; package c.d; message Elsewhere { optional int32 maybe = 1; int32 n = 2; }'
KINDS = {number: name[5:].lower() for name, number in FieldDescriptorProto.Type.items()}
LABELS = {number: name[6:].lower() for name, number in FieldDescriptorProto.Label.items()}


def test_a_file_of_everything_is_read_as_protoc_reads_it() -> None:
    files = {"n.proto": NASTY, "c.proto": IMPORTED}
    compare("n.proto", official.compiled(files), files)


def test_the_files_that_come_with_protoc_are_read_as_protoc_reads_them() -> None:
    files = {
        str(each.relative_to(official.WELL_KNOWN)): each.read_text() for each in official.WELL_KNOWN.rglob("*.proto")
    }
    files = {path: text for path, text in files.items() if "\nedition" not in text}
    assert len(files) > 10
    found = official.compiled(files)
    for path in files:
        compare(path, found, files)


def test_the_files_that_need_no_reference_have_the_fields_of_the_official_ones() -> None:
    paths = [path for path in WELL_KNOWN if path.startswith("google/protobuf/")]
    texts = {path: (official.WELL_KNOWN / path).read_text() for path in paths}
    found = official.compiled(texts)
    for path in paths:
        compare(path, found, WELL_KNOWN)
    for path in WELL_KNOWN:  # the others at least compile
        official.compiled({path: WELL_KNOWN[path]})


def compare(path: str, files: dict[str, descriptor_pb2.FileDescriptorProto], texts: object) -> None:
    file, schema = files[path], Schema(texts[path], texts)  # type: ignore[index]
    found = parse(texts[path])  # type: ignore[index]
    assert (found.package, found.is_proto3) == (file.package, file.syntax == "proto3")
    assert [each.name for each in found.messages] == [full(file.package, each.name) for each in file.message_type]
    for at, message in enumerate(file.message_type):
        compare_message(schema, schema.message((at,)), message, file.package)
    compare_enums(found.enums, file.enum_type, file.package)


def full(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


def compare_message(schema: Schema, found: MessageType, message: DescriptorProto, scope: str) -> None:
    name = full(scope, message.name)
    entries = {f".{name}.{each.name}": each for each in message.nested_type if each.options.map_entry}
    groups = {each.type_name for each in message.field if each.type == FieldDescriptorProto.TYPE_GROUP}
    declared = [each for each in message.nested_type if f".{name}.{each.name}" not in {*entries, *groups}]
    assert [each.name for each in found.messages] == [f"{name}.{each.name}" for each in declared]
    for inner, each in zip(found.messages, declared, strict=True):
        compare_message(schema, inner, each, name)
    compare_enums(list(found.enums), message.enum_type, name)
    for field, each in zip(found.fields, message.field, strict=True):
        entry = entries.get(each.type_name)
        assert (field.number, field.label or "optional") == (each.number, LABELS[each.label])
        assert field.name == each.name or field.kind == "group"
        is_in_oneof = each.HasField("oneof_index") and not each.proto3_optional
        assert field.oneof == (message.oneof_decl[each.oneof_index].name if is_in_oneof else "")
        assert resolved(schema, field.kind, name) == type_of(entry.field[1] if entry else each)
        assert field.key == (type_of(entry.field[0]) if entry else "")
        assert shown(field.default) == each.default_value


def compare_enums(found: list[Enum], enums: list[EnumDescriptorProto], scope: str) -> None:  # type: ignore[type-arg]
    assert [(each.name, each.values) for each in found] == [
        (full(scope, each.name), tuple((value.name, value.number) for value in each.value)) for each in enums
    ]


def resolved(schema: Schema, kind: str, scope: str) -> str:
    return kind if kind in KINDS.values() else f".{schema.resolve(kind, scope).name}"


def type_of(field: FieldDescriptorProto) -> str:
    kind = KINDS[field.type]
    return field.type_name if kind in ("message", "enum") else kind


def shown(default: object) -> str:
    """Return a default as a descriptor has it."""
    if isinstance(default, bytes):
        return "".join(
            chr(each) if 32 <= each < 127 and each != 39 else ESCAPES.get(each, f"\\{each:03o}") for each in default
        )
    return "" if default is None else str(default)


ESCAPES = {10: "\n", 39: "'"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('edition = "2023"; message A {}', "Editions of Protobuf are not supported"),
        ('syntax = "proto4";', "Line 1 has an unknown syntax"),
        ("message A { int32 a = 1 }", "Line 1 has '}' instead of ';'"),
        ("message A {\n int32 = 1; }", "Line 2 has '=' instead of a name"),
        ("message A {\n optional int32 a = x; }", "Line 2 has 'x' instead of a number"),
        ("message A { optional string a = 1 [default = 'b", "Line 1 has a text without an end"),
        ("message A { option b = { c: 1", "Line 1 has the end of the file instead of ';'"),
        ("message A {", "Line 1 has the end of the file instead of a name"),
        ("enum A {}", "Enum A has no values"),
        ("hello", "Line 1 has an unknown statement: hello"),
        ("\0", "Line 1 has '\\x00' instead of a name"),
        ("message A {" * 40, "more than 32 levels deep"),
    ],
)
def test_what_is_no_file_of_a_known_syntax_is_refused_with_its_line(text: str, reason: str) -> None:
    with pytest.raises(ProtoError) as caught:
        Schema(text, {})
    assert reason in str(caught.value)


def test_a_message_is_found_by_its_indexes_without_the_entries_of_maps() -> None:
    schema = Schema("message A {} message B { map<string, int32> m = 1; message C {} message D { message E {} } }", {})
    assert [schema.message(each).name for each in [(0,), (1,), (1, 0), (1, 1), (1, 1, 0)]] == [
        "A",
        "B",
        "B.C",
        "B.D",
        "B.D.E",
    ]
    for indexes in [(2,), (-1,), (0, 0), (1, 2), (1, 1, 0, 0), ()]:
        with pytest.raises(ProtoError, match=r"no message with the indexes \["):
            schema.message(indexes)


def test_any_text_is_a_file_or_is_refused() -> None:
    refused = []
    for end in range(0, len(NASTY), 7):
        for text in (NASTY[:end], NASTY[end:], NASTY[:end] + "}" + NASTY[end:]):
            try:
                parse(text)
            except ProtoError as error:
                refused.append(str(error))
    assert len(refused) > 100
    assert not any("\n" in reason for reason in refused)
