"""Envelopes of every format, made up at random: most as their connectors write them, many not."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Sequence
from typing import Any

from calve.event.envelope.logical import DECIMAL, EPOCHS, UTC_TEXTS, VARIABLE_DECIMAL
from calve.event.envelope.placeholder import UNAVAILABLE, Placeholder
from calve.event.envelope.shape import SHAPES
from event.envelope.debezium import field, schema, unscaled

__all__ = ["Maker"]

NAMES = (
    "id",
    "n",
    "at",
    "é",
    "a b",
    'q"',
    "op",
    "after",
    "payload",
    "schema",
    "",
    "x" * 20,
    "scale",
    "value",
    "\u0001",
    "\ud800",
)
STRINGS = (
    *("", "x", "é😀", '"', "\\", "\n", "},", '},"op":"c"', '{"after":{', "null", "a/b", "\ud800", "\udc00\ud800", "\u0000"),
    *(UNAVAILABLE, base64.b64encode(UNAVAILABLE.encode()).decode(), "12:30:00Z", "12:30:00+00:00", "2026-01-01", "Z", "+00:00Z"),
)  # fmt: skip
NUMBERS = (
    *("0", "-0", "1", "-1", "17", "1.50", "-0.0", "1e5", "1E-7", "12345678901234567890", "9007199254740993", "0.1e1"),
    *("9223372036854775807", "-9223372036854775808", "9223372036854775808", "9" * 41, "1" + "0" * 400, "1e999"),
    *("20454", "-719162", "-719163", "2932896", "2932897", "86399999", "86400000", "1529507596945104", "-1529507596945104"),
    *("253402300799999", "253402300800000", "-62135596800000", "-62135596800001", "1529507596945104001"),
)  # fmt: skip


class Number(str):
    """A number as it is written."""


class Pairs(list[Any]):
    """An object, of which keys may be repeated."""


_FORMS = Placeholder(UNAVAILABLE)
_UNITS = [base64.b64encode(bytes([byte])).decode() for byte in UNAVAILABLE.encode()]
PLACEHOLDERS = (
    *_FORMS.texts,
    *([one] for one in (*_FORMS.texts, *_FORMS.firsts)),
    *(
        [Number(form.format(byte)) for byte in UNAVAILABLE.encode()]
        for form in ("{}", "{}.0", "{}e-2", "0.{:05d}", "{}1")
    ),
    [Number("95")],
    _UNITS,
    _UNITS[1:],
    [Pairs([("scale", Number("0")), ("value", unit)]) for unit in _UNITS],
    Pairs([(UNAVAILABLE, UNAVAILABLE)]),
    Pairs([(UNAVAILABLE, UNAVAILABLE), ("a", "b")]),
    *(Pairs([("wkb", wkb), ("srid", Number("4326"))]) for wkb in _FORMS.geometries),
    *(Pairs([("srid", None), ("wkb", wkb), ("z", Number("1"))]) for wkb in _FORMS.geometries),
)
"""What stands for a value that was not sent, and near misses."""


class Maker:
    """Makes the envelopes of one batch, whose rows are of few tables.

    Args:
        chosen: What decides.
        form: The format.
        oddness: How often something is not as usual.
    """

    def __init__(self, chosen: random.Random, form: str, oddness: float | None = None) -> None:
        self._chosen = chosen
        self._form = form
        self._shape = SHAPES[form]
        self._oddness = chosen.choice([0, 0.01, 0.05, 0.2]) if oddness is None else oddness
        self._tables = [self._columns() for _ in range(chosen.randint(1, 3))]
        self._schemas = [self._schema(columns) for columns in self._tables]

    def key(self) -> str | None:
        """Make the key of a record."""
        made: list[Any] = [
            None,
            '{"id":1}',
            "5",
            "{broken",
            '{"payload":{"id":1}}',
            '{"schema":null,"payload":{"id":2}}',
        ]
        return self._chosen.choice(made)

    def event(self) -> bytes | None:
        """Make the text of a record."""
        if self._odd():
            return self._chosen.choice(
                [None, b"null", b" null\n", b"", b"{}", b"[]", b"5", b'{"a":"\xff"}', b'{"a":"\xc3"}']
            )
        number = self._chosen.randrange(len(self._tables))
        text = self._written(self._wrapped(self._envelope(self._tables[number]), self._schemas[number]))
        return self._spoiled(text).encode("utf-8", "surrogatepass")

    def _odd(self) -> bool:
        return self._chosen.random() < self._oddness

    def _columns(self) -> list[dict[str, Any]]:
        names = ["id", *self._chosen.sample(NAMES[1 : None if self._odd() else 11], self._chosen.randint(0, 6))]
        if self._chosen.random() < 0.2:
            names += [f"column{number}" for number in range(12)]
        if self._chosen.random() < 0.1:
            names.append(self._chosen.choice(names))
        return [self._column(name, 0) for name in names]

    def _column(self, name: str, depth: int) -> dict[str, Any]:
        kind = self._chosen.choice(
            [*["plain"] * 6, "epoch", "epoch", "decimal", "free", "utc", *["nested"] * (depth < 3)]
        )
        if kind == "epoch":
            return field(name, "int64", self._chosen.choice([*EPOCHS]))
        if kind == "decimal":
            digits = self._chosen.choice(["39", "-39", "x"] if self._odd() else ["0", "2", "-2", "10", "38"])
            return field(name, "bytes", DECIMAL, parameters={"scale": digits})
        if kind == "free":
            return field(name, "struct", VARIABLE_DECIMAL, fields=[field("scale", "int32"), field("value", "bytes")])
        if kind == "utc":
            return field(name, "string", self._chosen.choice([*UTC_TEXTS]))
        if kind == "nested":
            pick = self._chosen.choices if self._odd() else self._chosen.sample
            inner = [self._column(each, depth + 1) for each in pick(NAMES[:-2], k=self._chosen.randint(0, 3))]
            one = self._column("", depth + 1)
            parts = self._chosen.choice(
                [{"fields": inner}, {"items": one}, {"values": one, "keys": {"type": "string"}}]
            )
            if "keys" in parts and self._odd():
                parts["keys"] = self._column("", depth + 1)
            return field(name, {"fields": "struct", "items": "array", "values": "map"}[next(iter(parts))], **parts)
        return field(name, self._chosen.choice(["int64", "string", "double", "boolean", "bytes"]))

    def _schema(self, columns: Sequence[dict[str, Any]]) -> Any:
        found = {"type": "struct", "fields": list(columns)} if self._shape.is_plain else schema(columns)
        if self._odd():
            found["fields"][0] = dict(found["fields"][0])
            found["fields"][0]["name"] = self._chosen.choice([VARIABLE_DECIMAL, DECIMAL, *EPOCHS])
        if self._odd():
            return self._chosen.choice([None, 5, "x", [], {}, {"type": "struct"}, {"type": "struct", "fields": 7}])
        return found

    def _wrapped(self, envelope: Any, told: Any) -> Any:
        if not self._shape.wrapped or (self._odd() if self._shape.is_plain else self._chosen.random() < 0.4):
            return envelope
        pairs = Pairs([("schema", told), ("payload", None if self._odd() else envelope)])
        if self._odd():
            self._chosen.shuffle(pairs)
        if self._odd():
            pairs.insert(self._chosen.randrange(3), self._chosen.choice([("x", 1), ("payload", None), ("schema", {})]))
        if self._odd():
            pairs.pop(0)
        return pairs

    def _envelope(self, columns: Sequence[dict[str, Any]]) -> Any:
        if self._shape.is_plain:
            return self._row(columns)
        word = self._chosen.choice([*self._shape.words] * 9 + [*self._shape.silent, *self._shape.refused])
        operation = self._shape.words.get(word)
        before, after = self._row(columns), self._row(columns)
        if self._chosen.random() < 0.9:
            before = Pairs((name, dict(after).get(name) if name == "id" else value) for name, value in before)
        if not self._shape.whole_before:
            before = Pairs(self._chosen.sample(before, self._chosen.randint(0, len(before))))
        told = {"insert": (None, after), "update": (self._chosen.choice([before, before, None]), after)}
        old, new = told.get(operation or "", (before, None if self._shape.whole_before else after))
        parts: dict[str, Any] = {self._shape.before: old, self._shape.after: new, self._shape.operation: word}
        for attribute in self._shape.metadata.values():
            parts.setdefault(attribute.path, self._about())
        return self._placed({path: value for path, value in parts.items() if value is not None or not self._odd()})

    def _about(self) -> Any:
        usual = [Number("1767225600000"), "customers", None]
        return self._any(0) if self._odd() else self._chosen.choice(usual)

    def _placed(self, parts: dict[str, Any]) -> Pairs:
        """Put values at their paths, among fields that nobody asks for."""
        found = Pairs()
        for path, value in parts.items():
            place, *names = found, *path[1:].split("/")
            for name in names[:-1]:
                inside = next((each for key, each in place if key == name and type(each) is Pairs), Pairs())
                if all(each is not inside for _, each in place):
                    place.append((name, inside))
                place = inside
            place.append((names[-1], self._any(0) if self._odd() else value))
        if self._odd():
            self._chosen.shuffle(found)
        if self._odd():
            again, value = self._chosen.choice(found)
            found.append((again, self._chosen.choice([value, None, self._any(0)])))
        if self._chosen.random() < 0.3:
            found.insert(
                self._chosen.randrange(len(found)), (self._chosen.choice(["transaction", "x", "payload"]), self._any(1))
            )
        return found

    def _row(self, columns: Sequence[dict[str, Any]]) -> Pairs:
        row = Pairs((column["field"], self._value(column)) for column in columns)
        row = row if self._odd() else Pairs(dict(row).items())
        if self._odd():
            self._chosen.shuffle(row)
        if self._odd():
            row.append((self._chosen.choice(NAMES), self._any(0)))
        return row

    def _value(self, column: dict[str, Any]) -> Any:
        if self._odd():
            return self._any(0)
        if self._odd():
            return self._chosen.choice(PLACEHOLDERS)
        if self._chosen.random() < 0.1:
            return None
        logical, number = column.get("name"), Number(str(self._chosen.randrange(-(10**6), 10**17)))
        if logical in EPOCHS:
            return Number(self._chosen.choice(NUMBERS)) if self._odd() else self._chosen.choice([number, self._edge()])
        most = 10 ** self._chosen.choice([15, 15, 35, 60] if self._odd() else [0, 3, 12])
        amount = unscaled(self._chosen.randrange(-most, most))
        if logical == DECIMAL:
            return self._chosen.choice([amount, "AQ=", "A===", "AR==", "", "!", "AA==AA=="]) if self._odd() else amount
        if logical == VARIABLE_DECIMAL:
            scale = Number(
                self._chosen.choice(["38", "-38", "39", "-39", "2.0", "-0"] if self._odd() else ["0", "2", "7", "-2"])
            )
            return Pairs([("scale", scale), ("value", self._any(1) if self._odd() else amount)])
        if logical in UTC_TEXTS:
            return self._chosen.choice(STRINGS[-5:])
        kinds: dict[str, Callable[[], Any]] = {
            "struct": lambda: Pairs((each["field"], self._value(each)) for each in column["fields"]),
            "array": lambda: [self._value(column["items"]) for _ in range(self._chosen.randrange(3))],
            "map": lambda: (
                self._pairs(column)
                if column["keys"]["type"] != "string"
                else Pairs((str(key), self._value(column["values"])) for key in range(self._chosen.randrange(3)))
            ),
            "string": lambda: self._chosen.choice(STRINGS if self._odd() else STRINGS[:9]),
            "boolean": lambda: True,
        }
        return kinds.get(column["type"], lambda: Number(self._chosen.choice(NUMBERS)))()

    def _pairs(self, column: dict[str, Any]) -> Any:
        pairs = [[self._value(column["keys"]), self._value(column["values"])] for _ in range(self._chosen.randrange(3))]
        return [*pairs, self._any(1)] if self._odd() else pairs

    def _edge(self) -> Number:
        """Make a number near the end of a day, or of the years that dates can tell."""
        seconds = self._chosen.choice([0, 86_400, -62_135_596_800, 253_402_300_800])
        unit = 10 ** self._chosen.choice([0, 3, 6, 9])
        number = self._chosen.choice([0, 86_400, -719_162, 2_932_897]) if unit == 1 else seconds * unit
        return Number(max(min(number - self._chosen.randrange(2), 2**63 - 1), -(2**63)))

    def _any(self, depth: int) -> Any:
        kind = self._chosen.randrange(6 if depth < 3 else 4)
        if kind == 4:
            return [self._any(depth + 1) for _ in range(self._chosen.randrange(3))]
        if kind == 5:
            return Pairs((self._chosen.choice(NAMES), self._any(depth + 1)) for _ in range(self._chosen.randrange(3)))
        return [None, True, Number(self._chosen.choice(NUMBERS)), self._chosen.choice(STRINGS)][kind]

    def _written(self, value: Any) -> str:
        blanks, escapes = (0.3 if self._odd() else 0 for _ in range(2))
        return self._write(value, blanks, escapes)

    def _write(self, value: Any, blanks: float, escapes: float) -> str:
        def blank() -> str:
            return self._chosen.choice(" \n\t\r") if self._chosen.random() < blanks else ""

        def several(parts: Sequence[str], ends: str) -> str:
            return (
                f"{blank()}{ends[0]}{','.join(blank() + part + blank() for part in parts) or blank()}{ends[1]}{blank()}"
            )

        if type(value) is Number:
            return value
        if type(value) is dict:
            value = Pairs(value.items())
        if type(value) is Pairs:
            pairs = [
                f"{self._write(key, 0, escapes)}{blank()}:{self._write(each, blanks, escapes)}" for key, each in value
            ]
            return several(pairs, "{}")
        if type(value) is list:
            return several([self._write(each, blanks, escapes) for each in value], "[]")
        if type(value) is str and self._chosen.random() < escapes:
            return f'"{"".join(f"{chr(92)}u{ord(one):04x}" if ord(one) < 1 << 16 else one for one in value)}"'
        text = json.dumps(value, ensure_ascii=self._chosen.random() < 0.2)
        return "".join(f"\\u{ord(one):04x}" if "\ud800" <= one <= "\udfff" else one for one in text)

    def _spoiled(self, text: str) -> str:
        if not self._odd():
            return text
        at = self._chosen.randrange(len(text))
        other = self._chosen.choice([*'{}[]",:\\ a0-', "NaN", "\x01", text[at // 2 : at], '"op":"c",'])
        return self._chosen.choice([text[:at], text[:at] + text[at + 1 :], text[:at] + other + text[at:], text + other])
