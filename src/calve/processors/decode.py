"""Processors that read or write the encodings of a field: XML, Amazon Ion, compressed text, JSON text."""

from __future__ import annotations

import base64
import gzip
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from calve.processors.expressions import Compiler, condition
from calve.processors.fields import MISSING, Event, FieldKey, compact_json_of, keys, opened
from calve.processors.parse import DEPTH, ParseText, with_text_below
from calve.processors.step import ChangeStep, ProcessorError, ProcessorStep
from calve.processors.xml import InvalidXmlError, xml_entries
from calve.settings.option import option

__all__ = ["Decompress", "ParseIon", "ParseXml", "WriteJson"]

_MOST_BYTES = 64 * 1024 * 1024
"""The most bytes that a compressed field may have when it is decompressed."""


@dataclass(frozen=True)
class ParseXml(ParseText):
    """Parses the XML element in a string: its attributes and elements become entries; all values are text."""

    def parsed(self, text: str) -> Event:
        """Return the entries of the outermost element."""
        try:
            return xml_entries(text)
        except InvalidXmlError as error:
            raise ProcessorError(f"not XML: {error}", self.source) from None


@dataclass(frozen=True)
class ParseIon(ParseText):
    """Parses the Amazon Ion struct in a string: timestamps become ISO texts, blobs Base64, symbols text."""

    depth: int = option(0, DEPTH, minimum=0, maximum=10)

    def parsed(self, text: str) -> Event:
        """Return the entries of the struct."""
        from calve.processors.ion import InvalidIonError, ion_entries

        try:
            entries = ion_entries(text)
            return with_text_below(entries, self.depth) if self.depth else entries
        except InvalidIonError as error:
            raise ProcessorError(f"not an Ion struct: {error}", self.source) from None


@dataclass(frozen=True)
class WriteJson:
    """Writes a value as JSON text, without white space."""

    source: str = option(doc="The key of the value.", check=FieldKey.checked)
    target: str | None = option(None, "The key of the text; without it the text replaces the value.")

    def steps(self, compiler: Compiler) -> list[ProcessorStep]:
        """Build the step."""
        target = FieldKey.checked(self.target or self.source)
        return [ChangeStep(partial(self._write, FieldKey(self.source), target))]

    def _write(self, source: FieldKey, target: FieldKey, event: Event) -> bool:
        value = source.get(event)
        if value is MISSING:
            return False
        if not target.put(event, compact_json_of(value)):
            raise ProcessorError("a value on the way to this key is not an object", target.dotted)
        return True


@dataclass(frozen=True)
class Decompress:
    """Decompresses strings that are compressed and encoded as Base64."""

    keys: list[str] = option(doc="The keys of the strings.", minimum=1)
    type: Literal["gzip"] = option("gzip", "How they are compressed.")
    tags_on_failure: list[str] = option(
        ["_decompression_failure"], "Tags of events whose strings cannot be decompressed; they continue."
    )
    decompress_when: str | None = option(
        None, "A condition; only events for which it is true are decompressed.", check=condition
    )

    @property
    def tags(self) -> list[str]:
        """Tags that it may set."""
        return self.tags_on_failure

    def check(self) -> Iterator[tuple[str, str]]:
        """Require valid keys."""
        keys(self.keys)
        return iter(())

    def steps(self, compiler: Compiler) -> list[ProcessorStep]:
        """Build one step for each key."""
        when, tags = compiler.condition(self.decompress_when), tuple(self.tags_on_failure)
        return [ChangeStep(partial(_decompress, key), when, tags) for key in keys(self.keys)]


def _decompress(key: FieldKey, event: Event) -> bool:
    text = opened(key.get(event))
    if text is MISSING or text is None:
        return False
    try:
        content = _without_gzip(text)
    except (TypeError, ValueError, OSError, EOFError, zlib.error):
        raise ProcessorError("not text that is compressed with gzip and encoded as Base64", key.dotted) from None
    if content is None:
        raise ProcessorError(f"more than {_MOST_BYTES >> 20} MB when it is decompressed", key.dotted)
    return key.put(event, content)


def _without_gzip(text: Any) -> str | None:
    """Return a decompressed text; None if it is too large. Raises what the decoders raise."""
    with gzip.open(io.BytesIO(base64.b64decode(text, validate=True))) as file:
        content = file.read(_MOST_BYTES + 1)
    return content.decode() if len(content) <= _MOST_BYTES else None
