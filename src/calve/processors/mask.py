"""The processor that masks columns: on every source, before all other processors, in dead letters too."""

from __future__ import annotations

import hmac
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation
from typing import Literal

from calve.errors import SettingsError
from calve.settings.option import option

__all__ = ["TEXT_ACTIONS", "ColumnMask", "MaskColumns", "UnmaskableError"]

Action = Literal["hash", "null", "drop", "fixed", "format", "year", "month", "round"]
TEXT_ACTIONS = frozenset(("hash", "fixed", "format"))
"""The actions after which a column is text; the others keep its type."""
_TIME = re.compile(r"(\d{4})-(\d\d)-\d\d(?:([T ])(\d\d:\d\d(?::\d\d)?)(?:\.\d+)?(Z|[+-]\d\d:?\d\d)?)?", re.ASCII)
_DIGIT = re.compile("[0-9]")
_MOST_DIGITS = 60
_EXACT = Context(prec=3 * _MOST_DIGITS)


class UnmaskableError(ValueError):
    """An action does not apply to a value; the message does not have the value."""


def _hash(key: str, encoding: str) -> Callable[[str], str]:
    """Return the function HMAC-SHA-256 with a key; the key itself is hashed once (a copy costs less than a new one)."""
    keyed = hmac.new(key.encode(), digestmod="sha256")

    def hashed(text: str) -> str:
        digest = keyed.copy()
        digest.update(text.encode())
        return digest.hexdigest() if encoding == "hex" else b64encode(digest.digest()).decode()

    return hashed


@dataclass(frozen=True)
class ColumnMask:
    """Some columns, and what happens to their values. NULL stays NULL."""

    names: list[str] = option(
        [],
        "Columns, in any case; also patterns with `*`, `?` and `[…]`, which match nested fields, too. "
        "A field of an object is `address.street`, also in a list of objects.",
    )
    tags: list[str] = option(
        [],
        "Columns whose fields have one of these tags in the schema registry, e.g. `PII`: `confluent:tags` in Avro and "
        "JSON Schema, `confluent.field_meta` in Protobuf, and the metadata of schemas. Each event has those of its "
        "own schema.",
    )
    action: Action = option(
        doc="`hash`: HMAC-SHA-256 with `key`, as text. `null`: NULL. `drop`: no such column. `fixed`: the text "
        "`value`. `format`: all characters but the first and last ones become `character`. `year`, `month`: the "
        "beginning of the year or month of a date or time. `round`: the nearest multiple of `to`.",
    )
    value: str = option("***", "The text of `fixed`.")
    keep_first: int = option(0, "How many characters `format` keeps at the beginning.", minimum=0)
    keep_last: int = option(0, "How many characters `format` keeps at the end.", minimum=0)
    character: str = option("*", "What `format` writes for each other character.", minimum=1, maximum=1)
    to: int = option(1000, "The step of `round`.", minimum=1)

    @property
    def is_unique(self) -> bool:
        """Whether different values stay different, as those of a key must."""
        return self.action == "hash"

    def function(self, processor: MaskColumns) -> Callable[[str], str]:
        """Return the function of the text of a value, as a column of strings has it.

        The function raises UnmaskableError for a value to which the action does not apply.
        """
        match self.action:
            case "hash":
                return _hash(processor.key or "", processor.encoding)
            case "fixed":
                return lambda text: self.value
            case "format":
                return self._formatted
            case "round":
                return self._rounded
            case _:
                return self._truncated

    def _formatted(self, text: str) -> str:
        kept = self.keep_first + self.keep_last
        if kept >= len(text):
            return self.character * len(text)  # a short value would stay as it is
        hidden = self.character * (len(text) - kept)
        return text[: self.keep_first] + hidden + text[len(text) - self.keep_last :]

    def _rounded(self, text: str) -> str:
        try:
            number = Decimal(text)
            if not number.is_finite() or abs(number.adjusted()) > _MOST_DIGITS:
                raise UnmaskableError("it is no number that can be rounded")
            steps = _EXACT.divide(number, Decimal(self.to)).to_integral_value(context=_EXACT)
            return f"{_EXACT.multiply(steps, Decimal(self.to)):f}"
        except InvalidOperation as error:
            raise UnmaskableError("it is no number that can be rounded") from error

    def _truncated(self, text: str) -> str:
        parts = _TIME.fullmatch(text)
        if parts is None:
            raise UnmaskableError("it is no ISO date or date-time")
        year, month, between, clock, zone = parts.groups()
        start = f"{year}-{'01' if self.action == 'year' else month}-01"
        return start if between is None else f"{start}{between}{_DIGIT.sub('0', clock)}{zone or ''}"


@dataclass(frozen=True)
class MaskColumns:
    """Masks columns of events and of rows of databases, before anything else sees them."""

    columns: list[ColumnMask] = option(doc="The columns; the first entry with a column's name counts.", minimum=1)
    key: str | None = option(
        None,
        "The secret of `hash`, as `${env:NAME}` or `${file:PATH}`. Equal values have equal hashes wherever the key is "
        "the same.",
        minimum=16,
        secret=True,
    )
    key_id: str = option("", "A name of the key, which the descriptions of hashed columns have; no secret.")
    encoding: Literal["hex", "base64"] = option("hex", "How `hash` writes its 32 bytes.")
    unmasked: Literal["withhold", "keep"] = option(
        "withhold",
        "What a dead letter has that cannot be masked, because it cannot be read: `withhold`: its length alone; "
        "`keep`: its text, with the values that were to be hidden. `keep` also leaves the metadata as it is, and "
        "lets processors make fields out of texts, e.g. `parse_json`.",
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Require a key for hashes, and kept characters for `format` that leave some to hide."""
        if self.key is None and any(entry.action == "hash" for entry in self.columns):
            yield "key", "`hash` needs a key, e.g. ${env:MASK_KEY}"
        for number, entry in enumerate(self.columns):
            if not entry.names and not entry.tags:
                yield f"columns[{number}]", "needs names, or tags of a schema registry"
            for index, name in enumerate(entry.names):
                if not name.strip():
                    yield f"columns[{number}].names[{index}]", "a column has no empty name"

    def doubts(self) -> Iterator[tuple[str, str]]:
        """Warn of what `keep` costs."""
        if self.unmasked == "keep":
            where = "dead letters, logs, the dashboard and fields of parsed texts"
            yield "unmasked", f"with keep, {where} may have values that are to be hidden"

    def steps(self, compiler: object) -> Iterable[object]:
        """Masks are not steps of a chain.

        Raises:
            SettingsError: Always; they come before the chain.
        """
        raise SettingsError("mask must come before all other processors", step="settings")
