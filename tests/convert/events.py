"""Random schemas and random events for them, from plausible to nasty."""

from __future__ import annotations

import base64
import json
import random
import uuid

from pyiceberg import types as t
from pyiceberg.schema import Schema

NAMES = ["a", "b", "c", "id", "Id", "ünï", 'q"x', "a:b", "x y", "NaN", "d\\e"]
PRIMITIVES = [
    t.BooleanType(), t.IntegerType(), t.LongType(), t.FloatType(), t.DoubleType(), t.DecimalType(9, 2),
    t.DecimalType(38, 10), t.DecimalType(5, 0), t.DecimalType(18, 18), t.DateType(), t.TimeType(), t.TimestampType(),
    t.TimestamptzType(), t.TimestampNanoType(), t.TimestamptzNanoType(), t.StringType(), t.StringType(), t.UUIDType(),
    t.BinaryType(), t.FixedType(3),
]  # fmt: skip


class Maker:
    def __init__(self, rnd: random.Random) -> None:
        self.rnd = rnd
        self.ids = 0

    def next_id(self):
        self.ids += 1
        return self.ids

    def schema(self) -> Schema:
        return Schema(*self.fields(self.rnd.randint(1, 6), 2))

    def fields(self, count, depth):
        names = self.rnd.sample(NAMES, count)
        return [
            t.NestedField(self.next_id(), name, self.type(depth), required=self.rnd.random() < 0.15) for name in names
        ]

    def type(self, depth):
        draw = self.rnd.random()
        if depth == 0 or draw < 0.65:
            return self.rnd.choice(PRIMITIVES)
        if draw < 0.8:
            return t.StructType(*self.fields(self.rnd.randint(1, 3), depth - 1))
        required = self.rnd.random() < 0.2
        if draw < 0.92:
            return t.ListType(self.next_id(), self.type(depth - 1), required)
        key = t.StringType() if self.rnd.random() < 0.7 else self.rnd.choice(PRIMITIVES)
        return t.MapType(self.next_id(), key, self.next_id(), self.type(depth - 1), required)

    def event(self, schema: Schema) -> bytes:
        if self.rnd.random() < 0.03:
            return self.broken()
        clean = self.rnd.random() < 0.6
        text = self.object(schema.fields, clean)
        if self.rnd.random() < 0.02:
            text = text[:-1] + self.rnd.choice([",}", ", }", ',"z":NaN}', ',"z":[1,]}', ',"z":-inf}', ',"z": [nAn]}'])
        return text.encode("utf-8", "surrogatepass")

    def broken(self) -> bytes:
        return self.rnd.choice(
            [b"", b"[1]", b"null", b'"x"', b"12", b"{", b"\xff", b'{"a":"\xff"}', b"{}", b"[{}]", b'{"a":1} x',
             b'\xef\xbb\xbf{"a":1}', b'{"a":01}', b'{"a":1,"a"}', b"{\"a\":'x'}", b'{"a":"\t"}', b" {} ", b"[]"]
        )  # fmt: skip

    def object(self, fields, clean) -> str:
        parts = []
        for f in fields:
            draw = self.rnd.random()
            if draw < (0.05 if clean else 0.15) and not (clean and f.required):
                continue
            if draw < 0.2 and not clean:
                parts.append((f.name, "null"))
            else:
                parts.append((f.name, self.value(f.field_type, clean)))
        if not clean:
            for _ in range(self.rnd.randint(0, 2)):
                name = self.rnd.choice([*NAMES, "new", "A", "ID", "iD", "\\u0061", ""])
                parts.append((name, self.anything()))
            self.rnd.shuffle(parts)
        gap = self.rnd.choice(["", "", "", " ", "\n"])
        quote = [(name if name.startswith("\\u") else json.dumps(name, ensure_ascii=False)[1:-1]) for name, _ in parts]
        inner = f",{gap}".join(f'"{n}"{gap if gap == " " else ""}:{gap}{v}' for n, (_, v) in zip(quote, parts))
        return "{" + gap + inner + gap + "}"

    def value(self, kind, clean) -> str:
        if not clean and self.rnd.random() < 0.25:
            return self.anything()
        if isinstance(kind, t.StructType):
            return self.object(kind.fields, clean)
        if isinstance(kind, t.ListType):
            items = [self.value(kind.element_type, clean) for _ in range(self.rnd.randint(0, 3))]
            return "[" + ",".join(items + (["null"] if self.rnd.random() < 0.1 else [])) + "]"
        if isinstance(kind, t.MapType):
            keys = [self.value(kind.key_type, clean) for _ in range(self.rnd.randint(0, 3))]
            keys = [key if key.startswith('"') else json.dumps(key) for key in keys]
            return "{" + ",".join(f"{key}:{self.value(kind.value_type, clean)}" for key in keys) + "}"
        return self.typed(str(kind), kind)

    def typed(self, name, kind) -> str:
        rnd = self.rnd
        if name in ("int", "long"):
            return str(rnd.choice([rnd.randint(-100, 100), rnd.getrandbits(31), -(2**31), 2**31 - 1]))
        if name in ("float", "double"):
            return repr(rnd.choice([rnd.random() * 1000, rnd.uniform(-1e6, 1e6), 1.5, -0.0, 100, 1e-7]))
        if name.startswith("decimal"):
            text = f"{rnd.uniform(-999, 999):.{rnd.randint(0, 4)}f}"
            return rnd.choice([text, text, json.dumps(text), str(rnd.randint(-99, 99))])
        if name == "boolean":
            return rnd.choice(["true", "false"])
        if name == "string":
            return json.dumps(self.word(), ensure_ascii=rnd.random() < 0.5)
        if name == "uuid":
            return json.dumps(str(uuid.UUID(int=rnd.getrandbits(128))))
        if name == "binary" or name.startswith("fixed"):
            size = rnd.randint(0, 5) if name == "binary" else len(kind)
            return json.dumps(base64.b64encode(rnd.randbytes(size)).decode())
        return self.moment(name)

    def moment(self, name) -> str:
        rnd = self.rnd
        day = f"{rnd.choice([1969, 1970, 2024, 2026, 1, 9999, 1600]):04d}-{rnd.randint(1, 12):02d}-{rnd.randint(1, 28):02d}"
        fraction = rnd.choice(
            ["", "", f".{rnd.randrange(1000):03d}", f".{rnd.randrange(10**6):06d}", f".{rnd.randrange(10**9):09d}"]
        )
        clock = f"{rnd.randrange(24):02d}:{rnd.randrange(60):02d}:{rnd.randrange(60):02d}{fraction}"
        if name == "date":
            return rnd.choice([f'"{day}"', f'"{day}"', str(rnd.randint(-40000, 40000))])
        if name == "time":
            return rnd.choice([f'"{clock}"', str(rnd.randint(-5, 90_000_000))])
        zone = rnd.choice(["", "Z", "Z", "+02:00", "-0530"])
        return rnd.choice([f'"{day}T{clock}{zone}"', f'"{day}T{clock}{zone}"', str(rnd.randint(-(10**12), 2 * 10**12))])

    def word(self) -> str:
        return self.rnd.choice(
            ["", "x", "häß", "日本", "a\"b", "a\\b", "\n", "\x00", "12", "0", "-0", "1.10", "1e3", "-0.0", "true", "null",
             "NaN", "nan", "Infinity", "inf", '{"a":1}', "[1,2]", '"x":1', " : ", ",}", "a, }", "😀", "00012", "10.0.0.1",
             "2026-01-01", "x" * 40, " 12", "12 ", "+5", ".5", "5.", "1_000", "0x10", "TRUE", "False", "yes"]
        )  # fmt: skip

    def anything(self) -> str:
        rnd = self.rnd
        draw = rnd.random()
        if draw < 0.3:
            return rnd.choice(NUMBERS)
        if draw < 0.45:
            return json.dumps(rnd.choice(NUMBERS))
        if draw < 0.6:
            return json.dumps(self.word(), ensure_ascii=rnd.random() < 0.5)
        if draw < 0.75:
            return json.dumps(rnd.choice(ODD_TEXTS))
        if draw < 0.8:
            return self.typed(str(kind := rnd.choice(PRIMITIVES)), kind)
        return rnd.choice(
            ["true", "false", "null", "{}", "[]", "[1,2.50]", '{"a":1.10}', '{"a": {"b":[null]}}', '[{"a":1},{"a":"x"}]',
             '"\\ud800"', '"\\ud83d\\ude00"', "[true,1]", "[[]]", '{"a":1,"a":2}', '{"id":null}', '"\\u0041"']
        )  # fmt: skip


NUMBERS = [
    "0", "-0", "1", "-1", "12", "12.0", "12.5", "1e3", "1E+3", "1.5e1", "12e-1", "1e400", "-1e400", "1e-400", "3.5e38",
    "1.10", "0.1", "0.12345678901234567890123", "123456789012345678", "9007199254740993", "9223372036854775807",
    "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "18446744073709551616", "2147483648",
    "123456789012345678901234567890", "99999999999999999999999999999999999999", "1e38", "100000000000000000000.5",
    "12345678.9", "0.000000001", "-0.0", "0.0", "1.50", "1234567.89", "12345678901234567890e-10", "0e5", "1700000000000",
    "1700000000000.5", "253402300800000", "20000", "-719529", "86399999", "86400000", "1e18", "1e19", "0.10e2", "99999.5",
    "253402300799999", "-62135596800000", "-62135596800001", "1700000000000000", "2932896", "2932897", "-719162", "-719163",
    "1.000000000000000000000000000001", "10000000000000000001e-19", "9999999.99", "9999999.995", "4e-324", "1e-320",
]  # fmt: skip
ODD_TEXTS = [
    "2026-01-01", "2026-01-01T00:00:00Z", "2026-01-01 12:30:00", "2026-01-01T12:30", "2026-01-01T12:30:00+0200",
    "2026-01-01T00:00:00+02:00", "2026-01-01T12:30:00.123456789", "2026-01-01T12:30:00.123456000Z", "2026-02-30",
    "2026-1-1", "2026-01-01T24:00:00Z", "2026-01-01T23:59:60Z", "0000-01-01", "0000-01-01T00:00:00Z", "infinity", "epoch",
    "2026-01-01T12:30:00Z[UTC]", "2026-01-01T12:30:00 Z", "2026-01-01t12:30:00z", "2026-01-01T12:30:00+99", "now",
    "12:30", "12:30:00.1234567", "24:00:00", "23:59:60", "2026-01-01T12:30:00.", "2026-01-01T12:30:00+02", "20260101",
    "550e8400-e29b-41d4-a716-446655440000", "550E8400E29B41D4A716446655440000", "{550e8400-e29b-41d4-a716-446655440000}",
    "550e8400e29b-41d4-a716-446655440000", "YWJj", "YWI=", "YWI", "YQ==", "YR==", "YWJj=", "YW-_", "YW\nJj", "====",
    "-2026-01-01", "12026-01-01", "2026-01-01T12:30:00-05Z", "2026-01- 1", "２０２６-01-01", "١٢", "Infinity", "-Infinity",
    "2262-04-12T00:00:00", "1677-09-21T00:00:00", "1969-12-31T23:59:59.999999Z", "0001-01-01T00:00:00+18:00",
]  # fmt: skip
