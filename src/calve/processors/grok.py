"""The processor that takes strings apart by named patterns: `%{IP:client} %{NUMBER:bytes:long}`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from calve.errors import SettingsError
from calve.event.exact_json import Number
from calve.processors.convert import Kind, converted
from calve.processors.expressions import Compiler, condition
from calve.processors.fields import MISSING, Event, FieldKey, key_of, opened
from calve.processors.grok_patterns import PATTERNS
from calve.processors.patterns import found_groups, pattern
from calve.processors.step import ProcessorError, ProcessorStep
from calve.settings.option import option

if TYPE_CHECKING:
    from calve.processors.evaluation import Evaluation
    from calve.processors.event_batch import EventBatch

__all__ = ["Grok", "compile_grok"]

_REFERENCE = re.compile(r"%\{(\w+)(?::([^:;}]*))?(?:[:;](\w+))?\}")
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\[:\w+:\]|\\.|[^\]\\])*\]|\(\?P?<([A-Za-z]\w*)>|\(\?|\(", re.DOTALL)
_NUMBERS = ("INT", "BASE10NUM", "NUMBER")
_ENDS_IN_WORD = re.compile(r"(?<!\\)\w\Z")
"""Before a number: a letter, as in `v%{INT:version}`; then the number has no boundary of words before it."""
_DEEPEST = 30
_KINDS: Mapping[str, Kind] = {
    "int": "integer", "integer": "integer", "long": "long", "float": "double", "double": "double",
    "boolean": "boolean", "string": "string",
}  # fmt: skip


@dataclass(frozen=True)
class _Capture:
    """One group of a compiled pattern: its key in the event, and its type."""

    group: str
    key: str
    kind: Kind | None


@dataclass(frozen=True)
class _Compiled:
    """A pattern as a regular expression in which each group is a capture."""

    regex: str
    captures: tuple[_Capture, ...]

    def capture(self, texts: Sequence[str]) -> list[dict[str, Any] | None]:
        """Return the captures of each text: by key a value, or a list of several; None if the text does not match."""
        return [None if groups is None else self._merged(groups) for groups in found_groups(texts, self.regex)]

    def _merged(self, groups: dict[str, str]) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        for capture in self.captures:
            text = groups[capture.group]
            if not text:
                merged.setdefault(capture.key, None)
                continue
            if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
                text = text[1:-1]  # as in Data Prepper
            value: Any = text or None
            if text and capture.kind and capture.kind != "string":
                try:
                    value = converted(Number(text) if capture.kind == "integer" else text, capture.kind)
                except ValueError as error:
                    raise ProcessorError(str(error), capture.key) from None
            if merged.get(capture.key) is None:
                merged[capture.key] = value
            elif value is not None:
                before = merged[capture.key]
                merged[capture.key] = [*before, value] if type(before) is list else [before, value]
        return merged


@dataclass(frozen=True)
class Grok:
    """Takes strings apart by named patterns, such as `%{IP:client}`; the parts become entries of the event."""

    IGNORED_KEYS: ClassVar[Mapping[str, str]] = {
        "performance_metadata": "how long a pattern takes differs from run to run, so it is no metadata",
    }

    makes_fields: ClassVar[bool] = True

    match: dict[str, list[str]] = option(doc="By the key of a string the patterns for it, tried in order.", minimum=1)
    target_key: str | None = option(None, "The key of an object for the parts; without it they go to the root.")
    break_on_match: bool = option(True, "Stop at the first pattern that matches; `false` applies all patterns.")
    keep_empty_captures: bool = option(False, "Keep parts that are empty, as null.")
    named_captures_only: bool = option(True, "Only keep parts with a name; `false` names others by their pattern.")
    keys_to_overwrite: list[str] = option([], "Existing keys that are replaced; others become lists of all values.")
    pattern_definitions: dict[str, str] = option({}, "More named patterns, or others for the standard names.")
    patterns_directories: list[str] = option(
        [], "Folders of files with more named patterns, one in each line: its name, a space, and the pattern."
    )
    patterns_files_glob: str = option("*", "Which files of these folders.", aliases=("pattern_files_glob",))
    timeout_millis: int = option(
        30_000, "Accepted for compatibility with Data Prepper; no effect, because patterns take linear time.", minimum=0
    )
    grok_when: str | None = option(None, "A condition; only events for which it is true are matched.", check=condition)
    tags_on_match_failure: list[str] = option([], "Tags of events that match no pattern.")
    tags_on_timeout: list[str] = option([], "Accepted for compatibility with Data Prepper; no effect.")

    @property
    def tags(self) -> list[str]:
        """Tags that it may set."""
        return self.tags_on_match_failure

    def check(self) -> Iterator[tuple[str, str]]:
        """Require valid patterns."""
        names = self._names()
        for key, texts in self.match.items():
            for number, text in enumerate(texts):
                try:
                    FieldKey.checked(key)
                    compile_grok(text, names, self.named_captures_only)
                except SettingsError as error:
                    yield f"match.{key}[{number}]", str(error)

    def doubts(self) -> Iterator[tuple[str, str]]:
        """Warn of a backslash that is written twice where YAML takes one."""
        for key, texts in self.match.items():
            for number, text in enumerate(texts):
                if "\\\\[" in text:
                    why = r"\\[ is a backslash and the beginning of a class; for a bracket write \[ in single quotes"
                    yield f"match.{key}[{number}]", why

    def steps(self, compiler: Compiler) -> list[ProcessorStep]:
        """Build the step."""
        names = self._names()
        compiled = {
            key: [compile_grok(text, names, self.named_captures_only) for text in texts]
            for key, texts in self.match.items()
        }
        return [_Match(self, compiled, compiler.condition(self.grok_when))]

    def shipped(self) -> Grok:
        """Return these settings without files, which tasks may not have."""
        own = {name: text for name, text in self._names().items() if PATTERNS.get(name) != text}
        return replace(self, pattern_definitions=own, patterns_directories=[])

    def _names(self) -> dict[str, str]:
        """Return all named patterns.

        Raises:
            SettingsError: A folder or file of patterns cannot be read.
        """
        names = dict(PATTERNS)
        for folder in self.patterns_directories:
            try:
                for file in sorted(Path(folder).glob(self.patterns_files_glob)):
                    lines = file.read_text().splitlines() if file.is_file() else ()
                    named = (line.split(maxsplit=1) for line in lines if line.strip() and not line.startswith("#"))
                    names |= {pair[0]: pair[1] for pair in named if len(pair) == 2}
            except (OSError, UnicodeDecodeError) as error:
                raise SettingsError(f"the patterns in {folder} cannot be read: {error}", step="settings") from None
        return names | self.pattern_definitions


class _Match:
    """The step of `grok`: each pattern is applied to all strings of a batch together."""

    def __init__(self, settings: Grok, compiled: Mapping[str, list[_Compiled]], when: Evaluation | None) -> None:
        self.settings, self.compiled, self.when = settings, compiled, when

    def run(self, batch: EventBatch, rows: Sequence[int]) -> None:
        rows = batch.selected(self.when, rows)
        events = batch.opened(rows)
        captures: dict[int, dict[str, Any]] = {row: {} for row in rows}
        waiting = list(rows)
        for key, patterns in self.compiled.items():
            source = FieldKey(key)
            texts = {
                row: text for row in waiting if type(text := opened(source.get(events[row] or {}))) is str and text
            }
            for compiled_pattern in patterns:
                matched = self._apply(batch, compiled_pattern, texts, captures)
                if self.settings.break_on_match:
                    texts = {row: text for row, text in texts.items() if row not in matched}
                    waiting = [row for row in waiting if row not in matched]
        for row in rows:
            event = events[row]
            if not captures[row] and self.settings.tags_on_match_failure:
                batch.fail(row, "no pattern matches", "", self.settings.tags_on_match_failure)
            elif captures[row] and event is not None and self._put(event, captures[row]):
                batch.touched[row] = 1

    def _apply(
        self, batch: EventBatch, pattern: _Compiled, texts: Mapping[int, str], captures: dict[int, dict[str, Any]]
    ) -> set[int]:
        """Add the captures of a pattern; return the rows that match it."""
        matched = set()
        try:
            captured = pattern.capture(list(texts.values()))
        except ProcessorError:  # of some event: find it
            captured = [self._captured(batch, pattern, row, text) for row, text in texts.items()]
        for row, values in zip(texts, captured, strict=True):
            if values is not None:
                matched.add(row)
                if not self.settings.keep_empty_captures and None in values.values():
                    values = {name: value for name, value in values.items() if value is not None}
                if captures[row]:
                    _merge(captures[row], values, ())
                else:
                    captures[row] = values
        return matched

    def _captured(self, batch: EventBatch, pattern: _Compiled, row: int, text: str) -> dict[str, Any] | None:
        try:
            return pattern.capture([text])[0]
        except ProcessorError as error:
            batch.fail(row, str(error), error.field, self.settings.tags_on_match_failure)
            return {}

    def _put(self, event: Event, captured: dict[str, Any]) -> bool:
        if self.settings.target_key:
            return FieldKey(self.settings.target_key).put(event, captured)
        _merge(event, captured, self.settings.keys_to_overwrite)
        return True


def _merge(event: Event, captured: Mapping[str, Any], overwritten: Sequence[str]) -> None:
    """Put values into an event; a key that exists gets a list of all values."""
    for name, value in captured.items():
        if "/" not in name and "~" not in name and name not in event:
            event[name] = value
            continue
        key = key_of(name)
        before = key.get(event)
        if before is not MISSING and name not in overwritten:
            listed = opened(before)
            more = value if type(value) is list else [value]
            value = [*(listed if type(listed) is list else [before]), *more]
        key.put(event, value)


def compile_grok(text: str, names: Mapping[str, str], is_named_only: bool = True) -> _Compiled:
    """Compile a pattern with `%{NAME:field:type}` parts.

    Args:
        text: The pattern.
        names: The named patterns.
        is_named_only: Whether only parts with a field are captured.

    Raises:
        SettingsError: A name or type is unknown, or the regular expression is invalid.
    """
    captures: list[_Capture] = []
    regex = _expanded(text, names, captures, is_named_only, 0)
    pattern(regex)
    return _Compiled(regex, tuple(captures))


def _expanded(text: str, names: Mapping[str, str], captures: list[_Capture], is_named_only: bool, depth: int) -> str:
    if depth > _DEEPEST:
        raise SettingsError("the named patterns use each other in a circle", step="settings")

    def group(key: str, kind: Kind | None) -> str:
        captures.append(_Capture(f"g{len(captures)}", key, kind))
        return f"(?P<{captures[-1].group}>"

    def named(match: re.Match[str]) -> str:
        name, key, kind = match.groups()
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"Did you mean {near[0]}?" if near else "Define it in pattern_definitions"
            raise SettingsError(f"the pattern {name} is unknown", step="settings", hint=hint)
        if kind and kind.lower() not in _KINDS:
            raise SettingsError(f"the type {kind} is unknown", step="settings", hint=f"Types: {', '.join(_KINDS)}")
        is_captured = bool(key) or not is_named_only
        start = group(key or name, _KINDS[kind.lower()] if kind else None) if is_captured else "(?:"
        inner = _expanded(names[name], names, captures, is_named_only, depth + 1)
        if name in _NUMBERS and _ENDS_IN_WORD.search(text, 0, match.start()):
            inner = inner.replace(r"\b", "")
        return f"{start}{inner})"

    parts, at = [], 0
    for reference in _REFERENCE.finditer(text):
        parts += [_without_groups(text[at : reference.start()], group), named(reference)]
        at = reference.end()
    return "".join([*parts, _without_groups(text[at:], group)])


def _without_groups(text: str, group: Any) -> str:
    """Make groups that have no name invisible, and those with a name captures."""

    def one(match: re.Match[str]) -> str:
        if match[1]:
            return str(group(match[1], None))
        return "(?:" if match[0] == "(" else match[0]

    return _TOKEN.sub(one, text)
