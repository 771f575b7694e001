"""Turns nodes into values of settings classes, and collects all errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from calve import credentials
from calve.errors import SettingsError
from calve.settings.leaf import choice_text, outside, read_leaf
from calve.settings.node import YamlNode, kind, locate, plain
from calve.settings.option import Declared, Option, declared, ignored_keys, refused_keys
from calve.settings.problems import Location, SettingsProblem, unknown
from calve.settings.shape import Choice, Either, Entries, Items, Leaf, Record, Shape, shape_of, words

__all__ = ["INVALID", "Binder"]

INVALID: Any = object()
"""Stands for an invalid value, whose problem has been recorded."""


class Binder:
    """Binds nodes to shapes; errors go to `problems`, nothing is raised.

    Attributes:
        problems: The errors so far.
        warnings: The warnings so far.
    """

    def __init__(self) -> None:
        self.problems: list[SettingsProblem] = []
        self.warnings: list[SettingsProblem] = []

    def record(self, settings: type, node: YamlNode, path: str, others: Iterable[str] = ()) -> Any:
        """Return an instance of a settings class from a map (or nothing), or `INVALID`.

        Args:
            settings: A frozen dataclass of options.
            node: A map; null and an empty text are an empty one.
            path: The key path of the node.
            others: Further allowed keys, which are bound elsewhere.
        """
        if node.broken:
            return INVALID
        before = len(self.problems)
        if node.value is not None and node.value != "" and not isinstance(node.value, dict):
            meant = f"; write {{{node.value}: {{}}}}" if str(node.value) in declared(settings) else ""
            return self.wrong(node.location, path, f"expected a map, found {kind(node)}{meant}")
        children = node.value if isinstance(node.value, dict) else {}
        options = declared(settings)
        option_of = {name: option for option in options.values() for name in option.names}
        foreign = self._foreign_keys(settings, node, children, path)
        self.known_keys(node, path, {*option_of, *others, *foreign}, [*options, *others])
        values = {option.name: self._option(option, node, children, path) for option in options.values()}
        if len(self.problems) > before or INVALID in values.values():
            return INVALID
        instance = settings(
            **{options[name].attribute: value for name, value in values.items() if value is not _ABSENT}
        )
        self._check(instance, node, path)
        return INVALID if len(self.problems) > before else instance

    def value(self, shape: Shape, node: YamlNode, path: str, option: Option) -> Any:
        """Return the value of one option, or `INVALID`."""
        if node.broken:
            return INVALID
        if isinstance(shape, Either):
            return self._either(shape, node, path, option)
        if isinstance(shape, Record):
            return self.record(shape.settings, node, path)
        if isinstance(shape, Items) and isinstance(node.value, list):
            bound = [self.value(shape.item, item, f"{path}[{i}]", _inner(option)) for i, item in enumerate(node.value)]
            return self._whole((shape, shape.container(bound)), bound, node, path, option)
        if isinstance(shape, Entries) and isinstance(node.value, dict):
            entries = {
                key: self.value(shape.value, item, f"{path}.{key}", _inner(option)) for key, item in node.value.items()
            }
            return self._whole((shape, entries), entries.values(), node, path, option)
        if isinstance(shape, Leaf | Choice):
            return self._scalar(shape, node, path, option)
        return self._unexpected(shape, node, path, option)

    def wrong(self, location: Location, path: str, message: str) -> Any:
        """Record a problem and return `INVALID`."""
        self.problems.append(SettingsProblem(location, path, message))
        return INVALID

    def passes(self, check: Callable[[Any], object], value: Any, location: Location, path: str) -> bool:
        """Return whether a value passes a check; the `doubts` of what the check returns become warnings."""
        try:
            checked = check(value)
        except SettingsError as error:
            self.wrong(location, path, str(error))
            return False
        self.warnings += [SettingsProblem(location, path, doubt) for doubt in getattr(checked, "doubts", ())]
        return True

    def known_keys(self, node: YamlNode, path: str, allowed: Iterable[str], listed: Iterable[str]) -> None:
        """Record every key of a map that is not allowed; the message names the keys in `listed`."""
        wanted = set(allowed)
        for key, location in node.keys.items():
            if key not in wanted:
                self.wrong(location, f"{path}.{key}" if path else key, unknown("key", key, listed))

    def _foreign_keys(self, settings: type, node: YamlNode, children: dict[str, YamlNode], path: str) -> set[str]:
        """Return Data Prepper's keys that have no option here; report why those of a map are refused or ignored."""
        refused, ignored = refused_keys(settings), ignored_keys(settings)
        for key, location in node.keys.items():
            where = _joined(path, key)
            if key in refused and children[key].value not in (None, False, "false"):
                self.wrong(location, where, refused[key])
            elif key in ignored:
                self.warnings.append(SettingsProblem(location, where, f"has no effect: {ignored[key]}"))
        return {*refused, *ignored}

    def _option(self, option: Declared, node: YamlNode, children: dict[str, YamlNode], path: str) -> Any:
        given = [name for name in option.names if name in children]
        here = f"{path}.{option.name}" if path else option.name
        if not given:
            return self.wrong(node.at, here, "is required but missing") if option.required else _ABSENT
        child = children[given[0]]
        if len(given) > 1:
            return self.wrong(children[given[1]].at, here, f"{given[1]} means the same as {given[0]}; set only one")
        bound = self.value(shape_of(option.type), child, here, option.option)
        if bound is INVALID:
            return INVALID
        credentials.remember(bound, is_secret=option.option.secret)
        if option.option.check and not self.passes(option.option.check, bound, child.location, here):
            return INVALID
        return bound

    def _check(self, instance: Any, node: YamlNode, path: str) -> None:
        check: Callable[[], Iterable[tuple[str, str]]] = getattr(instance, "check", tuple)
        try:
            for key, message in check():
                self.wrong(locate(node, key), _joined(path, key), message)
            doubts: Callable[[], Iterable[tuple[str, str]]] = getattr(instance, "doubts", tuple)
            self.warnings += [
                SettingsProblem(locate(node, key), _joined(path, key), message) for key, message in doubts()
            ]
        except SettingsError as error:
            self.wrong(node.location, path, str(error))

    def _either(self, shape: Either, node: YamlNode, path: str, option: Option) -> Any:
        records = [member for member in shape.shapes if isinstance(member, Record)]
        if node.value is None and shape.optional and not records and not _fits_null(shape):
            return None
        for member in shape.shapes:
            if len(shape.shapes) == 1 or _fits(member, node):
                return self.value(member, node, path, option)
        return self._unexpected(shape, node, path, option)

    def _scalar(self, shape: Leaf | Choice, node: YamlNode, path: str, option: Option) -> Any:
        if isinstance(shape, Choice):
            text = choice_text(node)
            return text if text in shape.values else self._unexpected(shape, node, path, option)
        if shape.name == "anything":
            return plain(node)
        if node.value is None or isinstance(node.value, dict | list):
            return self._unexpected(shape, node, path, option)
        try:
            value = read_leaf(shape, node, option)
        except ValueError as error:
            actual = "" if option.secret else f", found {kind(node)}"
            return self.wrong(node.location, path, f"{error}{actual}")
        return self._whole((shape, value), (), node, path, option)

    def _whole(self, bound: tuple[Shape, Any], parts: Iterable[Any], node: YamlNode, path: str, option: Option) -> Any:
        """Check the limits of a value with valid parts."""
        shape, value = bound
        if any(part is INVALID for part in parts):
            return INVALID
        broken = outside(shape, value, option)
        return value if broken is None else self.wrong(node.location, path, broken)

    def _unexpected(self, shape: Shape, node: YamlNode, path: str, option: Option) -> Any:
        actual = "" if option.secret else f", found {kind(node)}"
        return self.wrong(node.location, path, f"expected {words(shape)}{actual}")


_ABSENT: Any = object()


def _joined(path: str, key: str) -> str:
    return ".".join(part for part in (path, key) if part)


def _inner(option: Option) -> Option:
    """The rules for an element: limits count the elements, so they are not for them."""
    return Option(secret=option.secret, unit=option.unit)


def _fits_null(shape: Either) -> bool:
    """Return whether null is one of the words to choose from, which is not the same as an absent option."""
    return any(isinstance(member, Choice) and "null" in member.values for member in shape.shapes)


def _fits(shape: Shape, node: YamlNode) -> bool:
    if isinstance(shape, Items):
        return isinstance(node.value, list)
    if isinstance(shape, Record | Entries):
        return isinstance(node.value, dict) or (node.value is None and isinstance(shape, Record))
    if isinstance(shape, Either):
        return any(_fits(member, node) for member in shape.shapes)
    if isinstance(shape, Choice):
        return choice_text(node) in shape.values
    if node.value is None or isinstance(node.value, dict | list):
        return shape == Leaf("anything")
    try:
        read_leaf(shape, node, Option())
    except ValueError:
        return False
    return True
