"""What processors do to the columns of rows, known before the first row: from what their steps say of themselves.

A step describes itself by texts (`core_step`, or `effect` where the core does not know it), so what it does and what it
declares are one thing. Steps without a description, and steps whose condition would give a column two names or types,
have no known effect: they cannot change rows whose columns are known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from calve.processors.fields import FieldKey
from calve.processors.step import ProcessorStep

__all__ = [
    "ChangedColumn",
    "Effects",
    "LostKeyError",
    "UnknownEffectError",
    "effects_of",
    "known_effects",
]

_CONVERTED = {"integer": "int", "long": "long", "double": "double", "string": "string", "boolean": "boolean"}
_TEXTS = frozenset(("lower", "upper", "trim", "truncate", "text"))
"""Steps that change texts in their place; a column of another type becomes text, too."""
_ADDS = frozenset(("put", "format"))
_FILLS = {"put": 1, "format": 1, "point": 2, "copy": 2, "rename": 2}
"""Steps that give a column a value, and where they have its key; whether they overwrite comes next."""


class UnknownEffectError(ValueError):
    """The effect of a processor on columns is not known before it runs; the message says why."""


class LostKeyError(ValueError):
    """A processor removes a column of a key, or makes different keys equal; the message is the column."""


class ChangedColumn(NamedTuple):
    """A column after processors.

    Attributes:
        source: The column that it was, or is a copy of; None: it is new.
        kind: Its new type, a word of Iceberg's, or `null` if it is always null; None: that of `source`.
    """

    source: str | None
    kind: str | None = None


@dataclass(frozen=True)
class Effects:
    """What the processors of a pipeline do to columns.

    Attributes:
        steps: The descriptions of all steps, in order.
    """

    steps: tuple[tuple[Any, ...], ...]

    def of(self, names: Iterable[str], keys: Collection[str] = ()) -> Mapping[str, ChangedColumn]:
        """Return the columns of processed rows by name.

        Args:
            names: The columns of the rows.
            keys: Those of the key.

        Raises:
            LostKeyError: The rows would lose their key.
        """
        columns = _Columns(names, keys)
        for step in self.steps:
            columns.apply(*step)
        return columns.by_name

    def idle(self, names: Iterable[str]) -> frozenset[int]:
        """Return the numbers of the steps that would only fill columns which rows have already.

        An update without the value of such a column leaves it as it is in the target, so a step must not fill it.
        """
        columns, idle = _Columns(names, ()), set[int]()
        for number, step in enumerate(self.steps):
            at = _FILLS.get(step[0], 0)
            if at and not step[at + 1] and step[at].flat in columns.by_name:
                idle.add(number)
            columns.apply(*step)
        return frozenset(idle)

    def sources(self, names: Iterable[str]) -> frozenset[str]:
        """Return the columns that columns of processed rows may come from, these names among them."""
        columns = set(names)
        for name, *parts in reversed(self.steps):
            if name in ("copy", "rename", "point") and parts[1].flat in columns:
                columns.add(parts[0].flat)
            elif name in ("format", "lookup") and parts[0].flat in columns:
                columns.update(part.parts[0] for part in _leaves(parts[1:]) if type(part) is FieldKey)
        return frozenset(columns)


def effects_of(steps: Sequence[ProcessorStep]) -> Effects:
    """Return the effects of steps.

    Raises:
        UnknownEffectError: One has none that is known.
    """
    return Effects(tuple(map(_effect, steps)))


def known_effects(steps: Sequence[ProcessorStep]) -> Effects | None:
    """Return the effects of steps; None if they are not known."""
    try:
        return effects_of(steps)
    except UnknownEffectError:
        return None


def _effect(step: ProcessorStep) -> tuple[Any, ...]:
    effect: tuple[Any, ...] = getattr(step, "effect", ()) or getattr(step, "core_step", ())
    if not effect:
        raise UnknownEffectError("what it does to columns is only known from each event")
    if any(type(part) is FieldKey and part.flat is None for part in _leaves(effect)):
        raise UnknownEffectError("it changes a field inside of another one")
    name = effect[0]
    has_one_effect = name in _TEXTS or name in ("drop", "attribute", "lookup") or (name in _ADDS and not effect[2])
    if getattr(step, "when", None) is not None and not has_one_effect:
        raise UnknownEffectError("it has a condition, so a column would have two types or names")
    if name == "put" and effect[3][:1] in ("{", "["):
        raise UnknownEffectError("it adds an object or a list")
    return effect


def _leaves(step: Iterable[Any]) -> Iterator[Any]:
    for part in step:
        yield from _leaves(part) if isinstance(part, list | tuple) else (part,)


class _Columns:
    """Columns while processors change them."""

    def __init__(self, names: Iterable[str], keys: Collection[str]) -> None:
        self.by_name = {name: ChangedColumn(name) for name in names}
        self._keys = set(keys)

    def apply(self, name: str, *parts: Any) -> None:
        if name in _TEXTS:
            self._convert([key.flat for key in parts[0]], "string", keeps=False)
        elif name == "convert":
            self._convert([parts[0].flat], _CONVERTED[parts[1]], keeps=parts[1] == "string")
        elif name in _ADDS:
            self._put(parts[0].flat, parts[1], ChangedColumn(None, _kind(parts[2]) if name == "put" else "string"))
        elif name == "lookup":
            before = self.by_name.get(parts[0].flat, ChangedColumn(None))
            self._put(parts[0].flat, True, before._replace(kind="string"))
        elif name == "point":
            source, key, overwrites = parts
            self._put(key.flat, overwrites, self.by_name.get(source.flat, ChangedColumn(None, "null")))
        elif name in ("copy", "rename"):
            self._move(parts[0].flat, parts[1].flat, parts[2], stays=name == "copy")
        elif name in ("delete", "select"):
            chosen = {key.flat for key in parts[0]}
            self._remove([column for column in self.by_name if (column in chosen) == (name == "delete")])

    def _convert(self, names: Iterable[str], kind: str, keeps: bool) -> None:
        """Give columns a type; `keeps`: different values stay different."""
        for name in names:
            if name in self.by_name:
                self._check_key([] if keeps else [name])
                self.by_name[name] = ChangedColumn(self.by_name[name].source, kind)

    def _put(self, name: str, overwrites: bool, column: ChangedColumn) -> None:
        if overwrites or name not in self.by_name:
            self._check_key([name])
            self.by_name[name] = column

    def _move(self, source: str, name: str, overwrites: bool, stays: bool) -> None:
        if source not in self.by_name or (name in self.by_name and not overwrites):
            return
        self._put(name, overwrites, self.by_name[source])
        if not stays:
            del self.by_name[source]
            self._keys = {name if key == source else key for key in self._keys}

    def _remove(self, names: Collection[str]) -> None:
        self._check_key(names)
        for name in names:
            del self.by_name[name]

    def _check_key(self, names: Collection[str]) -> None:
        for name in self._keys.intersection(names):
            raise LostKeyError(name)


def _kind(text: str) -> str:
    """Return the type of a constant, given as JSON that is no object and no list."""
    if text[0] in '"tfn':
        return {'"': "string", "n": "null"}.get(text[0], "boolean")
    return "double" if not {*text}.isdisjoint(".eE") else "long"
