"""The processors that remember keys: the first event with a key passes, later ones within a window are dropped."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from calve.event.exact_json import Number, decoder
from calve.processors.expressions import Compiler, condition
from calve.processors.fields import MISSING, decode_event, json_of, keys
from calve.processors.step import ProcessorStep
from calve.settings.option import option
from calve.settings.problems import unknown

if TYPE_CHECKING:
    import pyarrow as pa

    from calve.arrays import Mask
    from calve.processors.event_batch import EventBatch
    from calve.processors.key_filter import Hash

__all__ = ["Aggregate", "Deduplicate", "identity"]

_LEAST = timedelta(milliseconds=100)
_TENTH = timedelta(milliseconds=100)
_MOST_KEYS = 1_000_000
_KEYS_DOC = (
    "How many keys are remembered, all such processors of the pipeline together; 24 bytes each, in the state and in "
    "the task. When there are a quarter more, the oldest are forgotten: their duplicates pass, and the log and "
    "`calve_forgotten_keys_total` say so."
)
_NUMBER = re.compile(r"(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d{1,18}))?", re.ASCII)
_PLAIN = r"""(?:"[^"\\]*"|-?[1-9][0-9]*|0|true|false)"""
"""A value whose text is its identity."""
_parsed: Callable[[str], Any] = decoder().decode
_quote: Callable[[Any], str] = json.JSONEncoder(ensure_ascii=False).encode


@dataclass(frozen=True)
class Deduplicate:
    """Drops events whose key has passed before, within a window: the first one passes (Calve's own)."""

    keys: list[str] = option(
        doc="The keys whose values together identify an event. An event that lacks one, or has null there, passes.",
        minimum=1,
        check=keys,
    )
    window: timedelta = option(
        timedelta(hours=1),
        "How long a key is remembered after its event has passed, by the times at which batches begin. Within a batch "
        "every repetition is a duplicate.",
        minimum=_LEAST,
    )
    max_keys: int = option(_MOST_KEYS, _KEYS_DOC, minimum=1)
    deduplicate_when: str | None = option(
        None, "A condition; only events for which it is true are checked and remembered.", check=condition
    )

    @property
    def memory(self) -> tuple[int, int]:
        """How many keys are remembered, and for how many tenths of a second."""
        return self.max_keys, _tenths(self.window)

    @property
    def names(self) -> list[str]:
        """The keys that together identify an event."""
        return self.keys

    def steps(self, compiler: Compiler) -> list[ProcessorStep]:
        """Build the step."""
        return [_DropSeen(self.names, _tenths(self.window), compiler, self.deduplicate_when, needs_all=True)]


_HELD = "holds events back until their group ends, but an event is in a table with its batch, or never"
_CLOCKED = "depends on the second in which an event comes, so a batch that is repeated would have other rows"
_REFUSED: Mapping[str, str] = {
    "append": _HELD,
    "count": _HELD,
    "histogram": _HELD,
    "merge_all": _HELD,
    "percent_sampler": _CLOCKED,
    "put_all": _HELD,
    "rate_limiter": _CLOCKED,
    "sum": _HELD,
    "tail_sampler": _HELD,
}
"""Why an action of Data Prepper is not here."""


@dataclass(frozen=True)
class Aggregate:
    """Lets the first event of each group pass, and drops the others (`remove_duplicates`)."""

    IGNORED_KEYS: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            ("acknowledge_on_conclude", "disable_group_acknowledgments"),
            "progress always follows the commits",
        ),
    }

    identification_keys: list[str] = option(
        doc="The keys by which events are grouped; a missing one counts as null, as in Data Prepper.",
        minimum=1,
        check=keys,
    )
    action: Any = option(doc="`{remove_duplicates: {}}`; the other actions of Data Prepper are refused.")
    group_duration: timedelta = option(
        timedelta(seconds=180),
        "How long a group lasts after its first event, by the times at which batches begin.",
        minimum=_LEAST,
    )
    max_keys: int = option(_MOST_KEYS, _KEYS_DOC, minimum=1)
    local_mode: bool = option(
        False, "Accepted for compatibility with Data Prepper; groups are always those of the whole pipeline."
    )
    aggregated_events_tag: str | None = option(None, "A tag of the first event of each group.", minimum=1)
    output_unaggregated_events: bool = option(False, "Only false: with true the duplicates would pass.")
    aggregate_when: str | None = option(
        None, "A condition; events for which it is not true pass, and belong to no group.", check=condition
    )

    @property
    def memory(self) -> tuple[int, int]:
        """How many keys are remembered, and for how many tenths of a second."""
        return self.max_keys, _tenths(self.group_duration)

    @property
    def names(self) -> list[str]:
        """The keys that together identify an event."""
        return self.identification_keys

    @property
    def tags(self) -> list[str]:
        """Tags that it may set."""
        return [self.aggregated_events_tag] if self.aggregated_events_tag else []

    def check(self) -> Iterator[tuple[str, str]]:
        """Require the one action that is exact."""
        if not isinstance(self.action, dict) or len(self.action) != 1:
            yield "action", "must be one action, as in {remove_duplicates: {}}"
            return
        [(name, options)] = self.action.items()
        if name in _REFUSED:
            why = f"{name} {_REFUSED[name]}. Use a query on the table that is written, or Spark"
            yield "action", f"{why}; of the actions only remove_duplicates is supported"
        elif name != "remove_duplicates":
            yield "action", unknown("action", name, ["remove_duplicates"])
        elif options:
            yield "action", "remove_duplicates has no options"
        if self.output_unaggregated_events:
            yield "output_unaggregated_events", "would let the duplicates pass, too; leave it out"

    def steps(self, compiler: Compiler) -> list[ProcessorStep]:
        """Build the step."""
        window = _tenths(self.group_duration)
        return [_DropSeen(self.names, window, compiler, self.aggregate_when, self.tags, needs_all=False)]


class _DropSeen:
    """Drops the events whose key has passed before.

    Args:
        names: The keys.
        window_tenths: How long a key is remembered.
        compiler: Has what decides; without it all events pass, on the driver and in a replay of dead letters.
        condition: Only events for which this is true; None: all.
        tags: Tags of events that pass.
        needs_all: Whether events without a value of each key pass; else it counts as null.
    """

    needs_order: ClassVar[bool] = True
    """All events of a batch must come in their order."""
    effect: ClassVar[tuple[str, ...]] = ("drop",)
    """It does nothing to columns."""

    def __init__(
        self,
        names: Sequence[str],
        window_tenths: int,
        compiler: Compiler,
        condition: str | None,
        tags: Sequence[str] = (),
        *,
        needs_all: bool,
    ) -> None:
        by_name = {key.parts: key for key in keys(list(names))}
        self._keys = [by_name[parts] for parts in sorted(by_name)]
        self._fields = sorted({key.parts[0] for key in self._keys})
        self._names = [_quote("/".join(key.parts)).encode() for key in self._keys]
        plain = ",".join(f"{re.escape(name.decode())}:{_PLAIN}" for name in self._names)
        is_flat = all(key.flat is not None for key in self._keys)
        self._is_plain = re.compile(rf"\{{{plain}\}}" if is_flat else "(?!)").fullmatch
        self._window = window_tenths
        self._filter = compiler.key_filter
        self._when = compiler.condition(condition)
        self._tags = tags
        self._needs_all = needs_all
        # Without its condition, a processor would take over the keys of another one that is left out.
        name = json.dumps([*sorted(by_name), *([condition] if condition else [])])
        self._begun: Hash = self._filter.hash_of(name) if self._filter else None

    def run(self, batch: EventBatch, rows: Sequence[int]) -> None:
        """Drop the events."""
        rows = batch.selected(self._when, rows)
        if self._filter is None or not rows:
            return
        hashes: dict[int, bytes] = {}
        for row, text in zip(rows, batch.picked(rows, self._fields), strict=True):
            try:
                [hashed] = self._hashes([text])
            except Exception as error:  # a bug must not lose other events
                batch.fail(row, f"{type(error).__name__}: {error}", "")
                continue
            if hashed is not None:
                hashes[row] = hashed
        are_new = self._filter.are_new(list(hashes.values()), self._window)
        duplicates = [row for row, is_new in zip(hashes, are_new, strict=True) if not is_new]
        if self._tags:
            for row in {*hashes}.difference(duplicates):
                batch.tags[row] = list(dict.fromkeys([*batch.tags.get(row, ()), *self._tags]))
        batch.drop(duplicates)

    def duplicates(self, events: pa.Array) -> Mask | None:
        """Return which events are duplicates; None: that must be found out event by event, by `run`.

        Args:
            events: All events of a part of the batch, in their order, as JSON objects (string).
        """
        if self._filter is None or self._when or self._tags:
            return None
        return self._filter.repeated(events, self._fields, self._hashes, self._window)

    def _hashes(self, texts: Iterable[str]) -> list[bytes | None]:
        """Return the hash of the key of each event, given its fields; None: it has none."""
        hashes, begun, is_plain = list[bytes | None](), self._begun.copy, self._is_plain
        for text in texts:
            key = text.encode() if is_plain(text) else self._key(text)
            if key is None:
                hashes.append(None)
                continue
            hashed = begun()
            hashed.update(key)
            hashes.append(hashed.digest())
        return hashes

    def _key(self, text: str) -> bytes | None:
        event = decode_event(text)
        values = [value.get(event) for value in self._keys]
        texts = [b"null" if value is MISSING else identity(value) for value in values]
        if self._needs_all and b"null" in texts:
            return None
        return b"{" + b",".join(map(b":".join, zip(self._names, texts, strict=True))) + b"}"


def identity(value: Any) -> bytes:
    """Return the same JSON for values of an event that are the same, and different JSON for all others.

    Objects are the same in any order of their keys. 1, 1.0 and "1" are different, as in Data Prepper; 1.0, 1.00 and
    10e-1 are the same. Nothing is rounded.
    """
    text = bytes(value) if type(value) is msgspec.Raw else json_of(value).encode()
    match text[:1]:
        case b'"':
            return text if b"\\" not in text else _canonical(text)
        case b"{" | b"[":
            return _canonical(text)
        case b"t" | b"f" | b"n":
            return text
    return _number(text.decode()).encode()


def _canonical(text: bytes) -> bytes:
    try:
        return _dump(_parsed(text.decode())).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):
        return text


def _dump(value: Any) -> str:
    kind = type(value)
    if kind is Number:
        return _number(value)
    if kind is dict:
        return "{" + ",".join(f"{_quote(key)}:{_dump(value[key])}" for key in sorted(value)) + "}"
    if kind is list:
        return "[" + ",".join(map(_dump, value)) + "]"
    return _quote(value)


def _number(text: str) -> str:
    """Return a number without what does not count: `1.50` is `15e-1`. Integers have no `e`."""
    parts = _NUMBER.fullmatch(text)
    if parts is None:
        return text
    sign, whole, fraction, exponent = parts.groups()
    if fraction is None and exponent is None:
        return "0" if whole == "0" else text
    digits = (whole + (fraction or "")).lstrip("0")
    if not digits:
        return f"{sign}0e0"
    significant = digits.rstrip("0")
    return f"{sign}{significant}e{int(exponent or 0) - len(fraction or '') + len(digits) - len(significant)}"


def _tenths(duration: timedelta) -> int:
    """Return a duration in tenths of a second, rounded up."""
    return -(-duration // _TENTH)
