"""Text files, with what must come of each: the generator knows which records are whole.

Damage is of the kinds that files have: lines that are no JSON, cells with wrong quotes, bytes of another encoding. How files
are packed and cut off is in `file_packing`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from calve.sources.file.codec_settings import CodecSettings, JsonCodec

__all__ = ["Content", "Piece", "content"]

_STRINGS = (
    "",
    "a",
    "{}[]",
    '"',
    "\\",
    "}{",
    "é€",
    "\u2028",
    "x,y",
    "a\nb",
    "\ttab",
    "null",
    "𝄞",
    "'",
    "]}",
    "[{",
    "} {",
)
_GARBAGE = ("xyz", "5", '"text"', "null", "<a>", "NaN", "tru", "'a'", "a,b")
_BAD_LINES = ('{"a":', '{"a":1', '{"a":[1,2', '{"a":"x', '{"a" 1}', "{a:1}", '{"a":1,}', '{"a":tru', '["a"', "{", "[")
_KEYS = ('"k"', '"\\u006b"', '"k" ', '"k"\n')
_BOMS = (b"", b"", b"\xef\xbb\xbf")


class Piece(NamedTuple):
    """A part of a text, e.g. a record, with its end.

    Attributes:
        text: Its bytes.
        rows: The events that come of it.
        rejects: How many texts of it are rejected.
    """

    text: bytes
    rows: list[Any]
    rejects: int = 0


@dataclass(frozen=True)
class Content:
    """The text of a file.

    Attributes:
        suffix: The end of its name.
        pieces: Its parts.
        partial: Return what comes of the beginning of a piece with which a text ends; None: perhaps some of its first
            events, and one reject.
        codec: Its codec; None: that of its name.
        bom: What it begins with.
        uncut_bytes: As many first bytes must be there.
        unit_bytes: A plain text is cut after so many bytes, or twice as many, and so on.
    """

    suffix: str
    pieces: list[Piece]
    partial: Callable[[bytes], Piece | None]
    codec: CodecSettings | None = None
    bom: bytes = b""
    uncut_bytes: int = 0
    unit_bytes: int = 1

    @property
    def text(self) -> bytes:
        """All of it."""
        return self.bom + b"".join(piece.text for piece in self.pieces)


def content(rng: random.Random) -> Content:
    """Return a text of a random format but CSV."""
    return rng.choice([_ndjson, _newline, _json, _json, _keyed, _keyed])(rng)


def _value(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.randrange(8 if depth < 3 else 5)
    if kind == 5:
        return [_value(rng, depth + 1) for _ in range(rng.randrange(3))]
    if kind > 5:
        return {rng.choice(_STRINGS): _value(rng, depth + 1) for _ in range(rng.randrange(3))}
    return (rng.choice(_STRINGS), rng.randrange(-9, 10**9), rng.random(), None, rng.random() < 0.5)[kind]


def _object(rng: random.Random) -> dict[str, Any]:
    return {"id": rng.randrange(10**6), **{rng.choice("abc"): _value(rng) for _ in range(rng.randrange(3))}}


def _dump(rng: random.Random, value: Any, lines: bool = False) -> str:
    layout: dict[str, Any] = rng.choice([{}, {"separators": (",", ":")}, {"ensure_ascii": False}])
    return json.dumps(value, indent=rng.choice([1, 2, 4, "\t"]) if lines else None, **layout)


def _ndjson(rng: random.Random) -> Content:
    """Lines: objects, text that is none, and blank lines."""
    end, pieces = rng.choice(["\n", "\r\n"]), list[Piece]()
    for _ in range(rng.randrange(12)):
        kind, blank = rng.random(), rng.choice(["", "", " ", "\t"])
        if kind < 0.75:
            value = _object(rng)
            pieces.append(Piece(f"{blank}{_dump(rng, value)}{blank}{end}".encode(), [value]))
        elif kind < 0.9:
            text = rng.choice([*_GARBAGE, *_BAD_LINES, '[{"a":1}]', "{}{}", '{"a":"\udcff"}'])
            pieces.append(Piece(f"{text}{end}".encode(errors="surrogateescape"), [], 1))
        else:
            pieces.append(Piece(f"{blank}{blank}{end}".encode(), []))
    return Content(rng.choice(["ndjson", "jsonl"]), pieces, _partial_line, bom=rng.choice(_BOMS))


def _partial_line(text: bytes) -> Piece:
    if not text.strip(b" \t\r\n"):
        return Piece(text, [])
    value = _parsed(text)
    return Piece(text, [value]) if type(value) is dict else Piece(text, [], 1)


def _parsed(text: bytes) -> Any:
    """Return a JSON value; None: it is none."""
    try:
        return json.loads(text.decode(), parse_constant=lambda name: 1 / 0)
    except (ValueError, ZeroDivisionError):
        return None


def _newline(rng: random.Random) -> Content:
    """Lines of text; spaces are text."""
    end, pieces = rng.choice(["\n", "\r\n"]).encode(), list[Piece]()
    for _ in range(rng.randrange(12)):
        text = rng.choice([b"x", b" ", b"\t", "é".encode(), b'"', b"{}", b"\\", b"a b", b"", b"\xff\xfe", b"\xc3"])
        pieces.append(Piece(text + end, *_text_line(text)[1:]))
    return Content(rng.choice(["txt", "log"]), pieces, _text_line, bom=rng.choice(_BOMS))


def _text_line(text: bytes) -> Piece:
    text = text.removesuffix(b"\r")
    try:
        return Piece(text, [{"message": text.decode()}] if text else [])
    except UnicodeDecodeError:
        return Piece(text, [], 1)


def _json(rng: random.Random) -> Content:
    """Values in lines, over lines, without lines, and in arrays."""
    style, pieces = rng.choice(["array", "arrays", "lines", "mixed", "pretty", "dense"]), list[Piece]()
    values = [_object(rng) for _ in range(rng.randrange(9))]
    if style == "array":
        text = _dump(rng, values, rng.random() < 0.5) + rng.choice(["", "\n", " "])
        return Content("json", [Piece(text.encode(), list(values))], _partial_value, bom=rng.choice(_BOMS))
    for number, value in enumerate(values):
        text = _dump(rng, value, style == "pretty" or (style == "mixed" and number > 0 and rng.random() < 0.5))
        text = f"[{text}]" if style == "arrays" and rng.random() < 0.6 else text
        between = rng.choice(["", "", " ", "\n"]) if style == "dense" else "\n"
        pieces.append(Piece(f"{text}{between}".encode(), [value]))
        if rng.random() < 0.15:
            bad = rng.choice([*_GARBAGE, *(_BAD_LINES if style in ("lines", "mixed") else ())])
            pieces.append(Piece(f"{bad if style in ('lines', 'mixed') else f' {bad}'}\n".encode(), [], 1))
    return Content("json", pieces, _partial_value, bom=rng.choice(_BOMS))


def _partial_value(text: bytes) -> Piece | None:
    if not text.strip(b" \t\r\n"):
        return Piece(text, [])
    value = _parsed(text)
    if type(value) is dict:
        return Piece(text, [value])
    return Piece(text, value) if type(value) is list else None


def _keyed(rng: random.Random) -> Content:
    """Objects with an array under a key: on lines of their own, over lines, or without lines."""
    style, pieces = rng.choice(["lines", "mixed", "pretty", "dense"]), list[Piece]()
    for number in range(rng.randrange(7)):
        lines = style == "pretty" or (style == "mixed" and number > 0 and rng.random() < 0.5)
        between = rng.choice(["", "", " ", "\n"]) if style == "dense" else "\n"
        rows = [_object(rng) for _ in range(rng.choice([0, 1, 2, 4]))]
        is_alone = number > 0 and pieces[-1].rejects == 0  # two damaged pieces would be one
        kind = rng.random() if is_alone else 0.0
        if kind < 0.75:
            pieces.append(Piece((_container(rng, rows, lines) + between).encode(), rows))
        elif kind < 0.85:
            others = [{"x": rows}, {"k": {"id": 1}}, {"k": None}, {}, {"x": {"k": rows}}, [{"k": rows}]]
            pieces.append(Piece((_dump(rng, rng.choice(others), lines) + between).encode(), [], 1))
        elif style in ("lines", "mixed"):
            bad = rng.choice([*_GARBAGE, '{"k":[', '{"k":', '{"x":[{"k":[1]', '{"k":[{"id":1},{"id":2', '{"k":[],"x'])
            pieces.append(Piece(f"{bad}\n".encode(), [{"id": 1}] if "1}," in bad else [], 1))
    return Content("json", pieces, _partial_keyed, CodecSettings(json=JsonCodec(key_name="k")), rng.choice(_BOMS))


def _container(rng: random.Random, rows: list[Any], lines: bool) -> str:
    """Return an object with events under a key, perhaps in two arrays of this key, among other fields."""
    split = rng.randrange(len(rows) + 1) if rng.random() < 0.2 else len(rows)
    fields = [(key, part) for key, part in (("k", rows[:split]), ("k", rows[split:])) if part or key == "k"]
    fields = fields[: 1 if split == len(rows) else 2]
    for _ in range(rng.randrange(3)):
        name = rng.choice(["x", "kk", "", 'k":[', "K"])
        fields.insert(
            rng.randrange(len(fields) + 1), (name, rng.choice([1, "k", [], {"k": [{"id": 9}]}, [["k"]], "]}"]))
        )
    gap = "\n" if lines else " " if rng.random() < 0.5 else ""
    texts = []
    for name, value in fields:
        key = rng.choice(_KEYS[: 4 if lines else 3]) if name == "k" else json.dumps(name)
        texts.append(f"{gap}{key}:{gap}{_dump(rng, value)}")
    return "{" + ",".join(texts) + gap + "}"


def _partial_keyed(text: bytes) -> Piece | None:
    stripped = text.strip(b" \t\r\n")
    return Piece(text, []) if not stripped else None
