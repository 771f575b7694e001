"""Random events: JSON by a grammar that likes odd names and values, and mutations of its bytes."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from convert.events import NUMBERS, ODD_TEXTS

ODD_NAMES = [
    "", " ", "Id", "ID", "KIND", "City", "aMount", "a.b", "user.name", "user.", ".user", ".", "..", "\x00", "a\nb", "\t",
    "\x7f", "\x85", "`", "a`b", '"', "'", "\\", "a/b", "_file", "_pos", "_deleted", "_row_id", "_spec_id", "_partition",
    "_last_updated_sequence_number", "_change_type", "element", "key", "value", "list", "ı", "İ", "ß", "SS", "é",
    "e\u0301", "ﬀ", "日本", "🙂", "\ud800", "\udc00x", "x" * 64, "y" * 300, "z" * 10_000, "${/id}", "*", "null", "1", "-1",
    "r102", "--", ";", "%s", "{}", "[0]", "a b", "a,b", "a=b", "a:b", "#", "@", "\ufeff", "\u200b", "\u202e", "partition",
    "iceberg", "event", "json", "row", "malformed", "_original", "_order", "_operation", "c0", "file_row", "\ufffd",
]  # fmt: skip
TEXTS = [
    "", "x", "häß", "日本", 'a"b', "a\\b", "\n", "\x00", "12", "0", "1.10", "1e3", "true", "null", "NaN", "Infinity", "inf",
    '{"a":1}', "[1,2]", "😀", "\ud800", "\udfff\ud800", "\ufeff", "00012", "10.0.0.1", " 12", "+5", ".5", "0x10", "YWJj",
    "2026-01-01T12:30:00.123456789Z", "2026-01-01T12:30:00.123456Z", "+57973-01-01T00:00:00Z", "10000-01-01",
    "9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999-01:00", "0001-01-01", "0000-12-31", "2026-02-29", "a" * 255,
]  # fmt: skip
WILD_NUMBERS = [
    *NUMBERS, "1" * 10_000, "0." + "3" * 10_000, "-" + "9" * 400, "1e999999999", "1e-999999999", "0e999999999", "-0e0",
    "9007199254740993", "-9007199254740993", "1E400", "1773712800000000", "1773712800000000000", "253402300799999",
    "253402300800000", "-62135596800001", "-62135596800000", "4294967296", "0.1e-5", "123456789012345678901234567890.5",
]  # fmt: skip


KINDS = (
    "long", "double", "money", "text", "stamp", "day", "flag", "millis", "struct", "list", "objects", "map", "any"
)  # fmt: skip
"""What a field may usually hold."""


@dataclass(frozen=True)
class Field:
    """A field that events of a round usually have, and what it usually holds."""

    name: str
    kind: str


@dataclass(frozen=True)
class Recipe:
    """What the events of a round are like.

    Attributes:
        fields: What most events have.
        late: Fields that come with the second batch.
        kinds: Values of `kind`, as JSON texts.
        keys: Values of `k`, as JSON texts; none: no such field.
        words: Values of `op`, as JSON texts; none: no such field.
        mixed: The share of values that are of another kind than their field's.
        odd: The share of events with a field of an odd name or value.
        mutated: The share of events whose bytes are changed.
    """

    fields: Sequence[Field]
    late: Sequence[Field]
    kinds: Sequence[str]
    keys: Sequence[str]
    words: Sequence[str]
    mixed: float
    odd: float
    mutated: float


class Maker:
    """Makes events; the same random numbers make the same ones."""

    def __init__(self, rnd: random.Random, recipe: Recipe) -> None:
        self._rnd = rnd
        self._recipe = recipe
        self._count = 0
        self._kinds: dict[str, Callable[[], str]] = {
            "long": lambda: str(rnd.choice([rnd.randint(-9, 99), rnd.getrandbits(40), 2**53 + 1, 2**63 - 1])),
            "double": lambda: repr(rnd.choice([rnd.uniform(-1e6, 1e6), rnd.random(), 1e300, 0.5, -0.0])),
            "money": lambda: f"{rnd.uniform(-9999, 9999):.{rnd.randint(0, 3)}f}",
            "text": lambda: self.text(rnd.choice(["Ulm", "Ürzig", "a b", "", "x" * rnd.randint(1, 50)])),
            "stamp": self._stamp,
            "day": lambda: f'"{self._day()}"',
            "flag": lambda: rnd.choice(["true", "false"]),
            "millis": lambda: str(rnd.randint(0, 2 * 10**12)),
            "struct": lambda: self._object([("a", "long"), ("b", "text"), ("C", "any")]),
            "list": lambda: self._array(rnd.choice(["long", "text", "double"])),
            "objects": lambda: self._array("struct"),
            "map": lambda: self._entries(rnd.randint(0, 4)),
            "any": lambda: self.anything(2),
        }

    def event(self, batch: int) -> bytes:
        """Return one event for a batch, counted from 0."""
        rnd, recipe = self._rnd, self._recipe
        self._count += 1
        parts = [("id", f'"e{self._count}"'), ("kind", rnd.choice(recipe.kinds))]
        parts += [(name, rnd.choice(texts)) for name, texts in (("k", recipe.keys), ("op", recipe.words)) if texts]
        for field in [*recipe.fields, *(recipe.late if batch else ())]:
            if rnd.random() < 0.9:
                parts.append((field.name, self._value(field.kind)))
        if rnd.random() < recipe.odd:
            parts += [self._odd() for _ in range(rnd.randint(1, 3))]
            rnd.shuffle(parts)
        text = "{" + rnd.choice([",", ",", ", "]).join(f"{self.text(name)}:{value}" for name, value in parts) + "}"
        event = text.encode("utf-8", "surrogatepass")
        return self._mutated(event) if rnd.random() < recipe.mutated else event

    def text(self, value: str) -> str:
        """Return a text as JSON, escaped or not; half surrogates are mostly escaped."""
        escaped = self._rnd.random() < (0.98 if any("\ud800" <= c <= "\udfff" for c in value) else 0.3)
        return json.dumps(value, ensure_ascii=escaped)

    def anything(self, depth: int) -> str:
        """Return any JSON value."""
        rnd, draw = self._rnd, self._rnd.random()
        if draw < 0.25:
            return rnd.choice(NUMBERS)
        if draw < 0.5:
            return self.text(rnd.choice([*TEXTS, *ODD_TEXTS]))
        if draw < 0.65:
            return rnd.choice(["true", "false", "null", "{}", "[]", "[null]", '{"a":1,"a":2}', "[[],[1]]", "[{}]"])
        if depth <= 0 or draw < 0.75:
            return self._kinds[rnd.choice(["long", "double", "money", "stamp", "day"])]()
        if draw < 0.87:
            names = [rnd.choice(["a", "b", "A", rnd.choice(ODD_NAMES)]) for _ in range(rnd.randint(1, 3))]
            return "{" + ",".join(f"{self.text(name)}:{self.anything(depth - 1)}" for name in names) + "}"
        return "[" + ",".join(self.anything(depth - 1) for _ in range(rnd.randint(1, 3))) + "]"

    def _value(self, kind: str) -> str:
        if self._rnd.random() < self._recipe.mixed:
            return self.anything(2)
        return "null" if self._rnd.random() < 0.05 else self._kinds[kind]()

    def _odd(self) -> tuple[str, str]:
        """Return a field that few would expect."""
        rnd, draw = self._rnd, self._rnd.random()
        usual = [each.name for each in self._recipe.fields]
        if draw < 0.45:
            return rnd.choice(ODD_NAMES), self.anything(2)
        if draw < 0.6:
            name = rnd.choice(usual)
            twin = rnd.choice(
                [f"{name}.a", f"{name}.b", f"{name}.element", f"{name}.", name.upper(), name.title(), name]
            )
            return twin, self.anything(1)
        if draw < 0.75:
            return rnd.choice(usual), rnd.choice(WILD_NUMBERS)
        if draw < 0.9:
            return rnd.choice([*usual, "deep"]), self._deep()
        if draw < 0.92:
            return "many", self._entries(rnd.choice([50, 300, 1_500]))
        if draw < 0.94:
            return rnd.choice(usual), self.text("x" * rnd.choice([40_000, 300_000]))
        return rnd.choice(["id", "kind", "k", "op", *usual]), self.anything(2)

    def _deep(self) -> str:
        rnd = self._rnd
        opening, closing = rnd.choice([("[", "]"), ('{"a":', "}"), ('[{"a":', "}]"), ('{"":', "}")])
        depth = rnd.choice([3, 8, 31, 32, 33, 34, 64, 130, 500, 900, 2_000])
        return opening * depth + rnd.choice(["1", '"x"', "null", "{}"]) + closing * depth

    def _object(self, fields: Sequence[tuple[str, str]]) -> str:
        here = [(name, kind) for name, kind in fields if self._rnd.random() < 0.8]
        return "{" + ",".join(f'"{name}":{self._value(kind)}' for name, kind in here) + "}"

    def _array(self, kind: str) -> str:
        return "[" + ",".join(self._value(kind) for _ in range(self._rnd.randint(0, 4))) + "]"

    def _entries(self, count: int) -> str:
        names = [f"k{self._rnd.randint(0, 9 * count)}" for _ in range(count)]
        return "{" + ",".join(f'"{name}":{self._kinds["long"]()}' for name in names) + "}"

    def _day(self) -> str:
        rnd = self._rnd
        year = rnd.choice([1, 1582, 1969, 1970, 2024, 2026, 2026, 9999])
        return f"{year:04d}-{rnd.randint(1, 12):02d}-{rnd.randint(1, 28):02d}"

    def _stamp(self) -> str:
        rnd = self._rnd
        digits = rnd.choice([0, 0, 3, 6, 9])
        fraction = f".{rnd.randrange(10**digits):0{digits}d}" if digits else ""
        clock = f"{rnd.randrange(24):02d}:{rnd.randrange(60):02d}:{rnd.randrange(60):02d}{fraction}"
        return f'"{self._day()}{rnd.choice("TTT ")}{clock}{rnd.choice(["Z", "Z", "", "+02:00", "-0530"])}"'

    def _mutated(self, event: bytes) -> bytes:
        for _ in range(self._rnd.randint(1, 3)):
            event = self._change(event)
        return event.replace(b"\n", b" ").replace(b"\r", b" ") or b"x"

    def _change(self, event: bytes) -> bytes:
        rnd = self._rnd
        at, end = sorted((rnd.randint(0, len(event)), rnd.randint(0, len(event))))
        end = min(end, at + 20)
        match rnd.randrange(6):
            case 0:
                return event[:at] + bytes([rnd.randrange(256)]) + event[at + 1 :]
            case 1:
                return event[:at] + event[end:]
            case 2:
                return event[:end] + event[at:]
            case 3:
                return event[:at]
            case 4:
                return event[:at] + rnd.choice(JUNK) + event[at:]
        return event[:at] + self.anything(1).encode("utf-8", "surrogatepass") + event[end:]


JUNK = [
    b"\xff", b"\xef\xbb\xbf", b"\x00", b"\x1f", b"NaN", b"-Infinity", b",", b"}", b"{", b"01", b"\\", b'"', b"\xc3", b":",
    b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"//", b"\xe2\x80\xa8", b"\\u", b"\\ud800", b"1.", b"+1", b".5", b"[", b"]",
]  # fmt: skip
