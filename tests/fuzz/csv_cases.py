"""CSV files, with what must come of each."""

from __future__ import annotations

import csv
import io
import random
from dataclasses import dataclass

from calve.sources.file.codec_settings import CodecSettings, CsvCodec
from fuzz.file_cases import Content, Piece

__all__ = ["csv_content"]

_CELLS = (
    "a",
    "1",
    "",
    " ",
    "x y",
    "é",
    "a\nb",
    "\n",
    "\r\n",
    'say "x"',
    '"',
    ",",
    ";",
    "\t",
    "a,b",
    "l1;\nl2",
    '5" x',
    "'",
)
_ENCODINGS = ("utf-8", "utf-8", "utf-8", "utf-8-sig", "latin-1", "windows-1252", "utf-16", "utf-16-le", "shift_jis")
_BOMS = {"utf-8-sig": b"\xef\xbb\xbf", "utf-16": b"\xff\xfe"}
_PLAIN = {"utf-8-sig": "utf-8", "utf-16": "utf-16-le"}
_BAD_BYTES = {"utf-8": b"\xff", "windows-1252": b"\x81"}


@dataclass(frozen=True)
class Dialect:
    """How a file is written.

    Attributes:
        encoding: As the codec has it.
        delimiter: Between cells.
        quote: Around cells.
        end: Of a record.
        names: Of the columns.
        has_header: Whether the first record has them.
    """

    encoding: str
    delimiter: str
    quote: str
    end: str
    names: list[str]
    has_header: bool

    @property
    def plain(self) -> str:
        """The encoding without a mark at the beginning."""
        return _PLAIN.get(self.encoding, self.encoding)

    def write(self, text: str) -> bytes:
        """Return a text in the encoding."""
        return text.encode(self.plain)

    def row(self, cells: list[str | None]) -> dict[str, str | None]:
        """Return the event of a record."""
        return dict(zip(self.names, cells, strict=True))

    def partial(self, text: bytes) -> Piece | None:
        """Return what comes of the beginning of a record with which a file ends."""
        try:
            lines = io.StringIO(text.decode(self.plain), newline="")
            reader = csv.reader(lines, delimiter=self.delimiter, quotechar=self.quote, strict=True)
            records = [record for record in reader if record]
        except (UnicodeDecodeError, csv.Error):
            return None
        if not records:
            return Piece(text, [])
        return None if len(records[0]) != len(self.names) else Piece(text, [self.row(list(records[0]))])


def csv_content(rng: random.Random) -> Content:
    """Return a CSV file."""
    dialect = _dialect(rng)
    pieces = [_header(rng, dialect) if dialect.has_header else _record(rng, dialect)]
    for _ in range(rng.randrange(12)):
        kind = rng.random()
        if kind < 0.75:
            pieces.append(_record(rng, dialect))
        elif kind < 0.8:
            pieces.append(Piece(dialect.write(dialect.end), []))
        else:
            pieces.append(_damaged(rng, dialect))
    header = None if dialect.has_header else dialect.names
    codec = CsvCodec(
        delimiter=dialect.delimiter,
        quote_character=dialect.quote,
        header=header,
        detect_header=dialect.has_header,
        encoding=dialect.encoding,
    )
    bom, first = _BOMS.get(dialect.encoding, b""), len(pieces[0].text)
    return Content(
        "csv", pieces, dialect.partial, CodecSettings(csv=codec), bom, len(bom) + first, len(dialect.write("a"))
    )


def _dialect(rng: random.Random) -> Dialect:
    names = rng.sample(["a", "b", "c d", "é", 'q"', "x,y", "n\nl"], rng.randrange(1, 5))
    encoding = rng.choice(_ENCODINGS)
    names = [_fit(name, encoding) for name in names]
    delimiter = rng.choice(",,,;\t|")
    return Dialect(encoding, delimiter, rng.choice('"""\''), rng.choice(["\n", "\r\n"]), names, rng.random() < 0.8)


def _fit(text: str, encoding: str) -> str:
    return text.encode(_PLAIN.get(encoding, encoding), "replace").decode(_PLAIN.get(encoding, encoding))


def _header(rng: random.Random, dialect: Dialect) -> Piece:
    cells = [_cell(rng, dialect, name)[0] for name in dialect.names]
    return Piece(dialect.write(dialect.delimiter.join(cells) + dialect.end), [])


def _cell(rng: random.Random, dialect: Dialect, value: str) -> tuple[str, str | None]:
    """Return a cell as it is written, and its value."""
    quote = dialect.quote
    must = value[:1] == quote or any(character in value for character in (dialect.delimiter, "\n", "\r"))
    if must or rng.random() < 0.3:
        return f"{quote}{value.replace(quote, quote * 2)}{quote}", value
    return value, value or None


def _record(rng: random.Random, dialect: Dialect) -> Piece:
    values = [_fit(rng.choice(_CELLS), dialect.encoding) for _ in dialect.names]
    if values == dialect.names:
        values[0] = "1"  # a first record with the names is a header
    cells = [_cell(rng, dialect, value) for value in values]
    if len(cells) == 1 and not cells[0][0]:
        cells = [(dialect.quote * 2, "")]  # else the line is empty
    text = dialect.delimiter.join(text for text, _ in cells)
    return Piece(dialect.write(text + dialect.end), [dialect.row([value for _, value in cells])])


def _damaged(rng: random.Random, dialect: Dialect) -> Piece:
    """Return a record that must be rejected alone."""
    quote, others = dialect.quote, ["1"] * (len(dialect.names) - 1)
    bad = [f"{quote}12{quote} pipe", f"{quote}{quote}x", f"{quote}a{quote} ", f"{quote}a{quote}b{quote}"]
    if (wrong := _BAD_BYTES.get(dialect.plain)) and rng.random() < 0.3:
        cells = [*map(dialect.write, others), b"x" + wrong]
        return Piece(dialect.write(dialect.delimiter).join(cells) + dialect.write(dialect.end), [], 1)
    if rng.random() < 0.4:
        width = rng.choice([count for count in range(1, 7) if count != len(dialect.names)])
        cells = ["x"] * width
    else:
        cells = [*others, rng.choice(bad)]
        rng.shuffle(cells)
    return Piece(dialect.write(dialect.delimiter.join(cells) + dialect.end), [], 1)
