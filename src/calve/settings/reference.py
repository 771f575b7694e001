"""Writes the reference of all options as Markdown, from their declarations."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from calve.settings import units
from calve.settings.option import Declared, Option, declared, ignored_keys, refused_keys, summary
from calve.settings.pipeline import PipelineKeys, Plugins, SinkKeys
from calve.settings.schema import yaml_value
from calve.settings.shape import Either, Entries, Items, Leaf, Record, Shape, shape_of, words

__all__ = ["reference"]

_HEAD = """# Configuration reference

Generated from the settings classes by `make docs`; do not edit. `calve schema` completes keys in your editor.

| value | how it is written |
|---|---|
| a duration | `500ms`, `30s`, `5m`, `1h`, `90d` or `PT5M` |
| a size | `64mb` or `1gb` |
| from the environment | `${env:NAME}`, `${env:NAME:-default}` |
| from a file, e.g. a mounted secret | `${file:PATH}`, without the line end behind it |
| default `none` | the key is not set |
"""
_ACCEPTED = "Accepted for compatibility with Data Prepper"
_ACCEPTED_HEAD = """## Accepted for compatibility

These keys of Data Prepper are accepted and have no effect; for some of them `calve validate` warns.

| where | keys | why |
|---|---|---|"""
_REFUSED_HEAD = """
## Refused

These keys of Data Prepper are refused, unless they are `false` or null.

| where | keys | why |
|---|---|---|"""

_PARTS = (
    "| `source` | a map | **required** | The source of the events: one source by name. |",
    "| `processor` | a list | none | Processors by name, in order: they change events before the routes. Also called "
    "`processors`. |",
    "| `route` | a list | none | Conditions by name: `- errors: '/status >= 500'`; `_default` is every event that "
    "matches no other route. Also called `routes`. |",
    "| `sink` | a list | **required** | The destinations of the events: sinks by name. |",
)


def reference(plugins: Plugins) -> str:
    """Return the reference: pipelines, then every source, processor and sink, each with a table of options.

    Options without effect are in one table at the end.
    """
    sections = {"A pipeline": PipelineKeys, "Every sink": SinkKeys}
    for title, settings_of in (
        ("Source", plugins.sources),
        ("Processor", plugins.processors),
        ("Sink", plugins.sinks),
    ):
        sections |= {f"{title} `{name}`": settings for name, settings in sorted(settings_of.items())}
    tables = (
        _section(f"## {title}", settings, _PARTS if settings is PipelineKeys else ())
        for title, settings in sections.items()
    )
    accepted, refused = _keys_table(sections, _accepted), _keys_table(sections, _refused)
    return "\n".join([_HEAD, *tables, _ACCEPTED_HEAD, *accepted, _REFUSED_HEAD, *refused, ""])


def _keys_table(sections: Mapping[str, type], reasons: Callable[[type], Iterator[tuple[str, str]]]) -> Iterator[str]:
    """Yield rows of keys, those of a section with the same reason together."""
    for title, settings in sections.items():
        keys: dict[str, list[str]] = {}
        for key, reason in reasons(settings):
            keys.setdefault(reason[:1].upper() + reason[1:], []).append(f"`{key}`")
        where = title[:1].lower() + title[1:]
        yield from (f"| {where} | {', '.join(names)} | {reason} |" for reason, names in keys.items())


def _accepted(settings: type) -> Iterator[tuple[str, str]]:
    """Yield the keys without effect, and why."""
    yield from ((key, _reason(option.option.doc)) for key, option in _options(settings) if _is_accepted(option))
    for prefix, kind in _kinds(settings):
        yield from ((prefix + key, f"{reason}.") for key, reason in ignored_keys(kind).items())


def _refused(settings: type) -> Iterator[tuple[str, str]]:
    """Yield the keys of Data Prepper that are refused, and why."""
    for prefix, kind in _kinds(settings):
        yield from ((prefix + key, f"{reason}.") for key, reason in refused_keys(kind).items())


def _is_accepted(option: Declared) -> bool:
    return option.option.doc.startswith(_ACCEPTED)


def _reason(doc: str) -> str:
    return re.sub(r"^(; no effect)?[,:;. ]*(because )?|; no effect(?=\.$)", "", doc.removeprefix(_ACCEPTED)).strip()


def _section(title: str, settings: type, before: Iterable[str] = ()) -> str:
    rows = [*before, *(_row(key, option) for key, option in _options(settings) if not _is_accepted(option))]
    table = ["| key | type | default | meaning |", "|---|---|---|---|", *rows] if rows else ["No options."]
    return "\n".join([title, "", summary(settings), "", *table, ""])


def _options(settings: type, prefix: str = "") -> Iterator[tuple[str, Declared]]:
    """Yield the options by dotted key, nested ones after the one that holds them."""
    for name, option in declared(settings).items():
        yield prefix + name, option
        for marks, nested in _records(shape_of(option.type)):
            yield from _options(nested, f"{prefix}{name}{marks}.")


def _kinds(settings: type, prefix: str = "") -> Iterator[tuple[str, type]]:
    """Yield a settings class and those inside of it, with the beginning of their dotted keys."""
    yield prefix, settings
    for name, option in declared(settings).items():
        for marks, nested in _records(shape_of(option.type)):
            yield from _kinds(nested, f"{prefix}{name}{marks}.")


def _records(shape: Shape) -> Iterator[tuple[str, type]]:
    """Yield the settings classes in a shape, with `[]` for a list and `.*` for a map on the way."""
    if isinstance(shape, Record):
        yield "", shape.settings
    if isinstance(shape, Items):
        yield from ((f"[]{marks}", nested) for marks, nested in _records(shape.item))
    if isinstance(shape, Entries):
        yield from ((f".*{marks}", nested) for marks, nested in _records(shape.value))
    if isinstance(shape, Either):
        for member in shape.shapes:
            yield from _records(member)


def _row(key: str, option: Declared) -> str:
    shape = shape_of(option.type)
    cells = (f"`{key}`", words(shape), _default(option, shape), _meaning(option.option, shape))
    return f"| {' | '.join(cell.replace('|', chr(92) + '|').replace(chr(10), ' ') for cell in cells)} |"


def _default(option: Declared, shape: Shape) -> str:
    if option.required:
        return "**required**"
    value = units.size_text(option.default) if shape == Leaf("size") else yaml_value(option.default)
    if value is None or value in ([], {}):
        return "none"
    return f"`{value if isinstance(value, str) and value else json.dumps(value)}`"


def _meaning(option: Option, shape: Shape) -> str:
    notes = [option.doc] if option.doc else []
    if option.aliases:
        notes.append(f"Also called {', '.join(f'`{alias}`' for alias in option.aliases)}.")
    limits = [f"at {side} {_limit(limit, shape)}" for side, limit in _limits(option, shape)]
    if limits:
        notes.append(f"{', '.join(limits)}.".capitalize())
    if option.unit:
        notes.append(f"A plain number is in {'milliseconds' if option.unit == 'ms' else 'seconds'}.")
    return " ".join(notes)


def _limits(option: Option, shape: Shape) -> Iterator[tuple[str, Any]]:
    if not isinstance(shape, Leaf) or shape.name in ("text", "path"):
        return
    sides: Mapping[str, Any] = {"least": option.minimum, "most": option.maximum}
    yield from ((side, limit) for side, limit in sides.items() if limit is not None)


def _limit(limit: Any, shape: Leaf | Shape) -> str:
    if shape == Leaf("size"):
        return units.size_text(limit)
    return str(yaml_value(limit))
