"""Reads YAML text into nodes: every key and value with its location. Replaces `${env:NAME}` and `${file:PATH}`;
rejects duplicate keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import yaml  # type: ignore[import-untyped]

from calve.settings.node import Scalar, YamlNode, resolve
from calve.settings.problems import Location, SettingsErrors, SettingsProblem, shown

__all__ = ["Document", "substitute"]

MAX_DEPTH = 40
MAX_NODES = 50_000
MAX_PATH_CHARACTERS = 32 << 20
"""Of all key paths together, because each is kept; many values below long keys would fill the memory."""
_SUBSTITUTED = re.compile(r"\$\{(env|file):([^}]*)\}?")
_USAGE = {"env": "write ${env:NAME} or ${env:NAME:-default}", "file": "write ${file:PATH}"}
_MAX_FILE_BYTES = 64 << 10
_INDENTATION = {
    "expected <block end>, but found": "this line is indented differently from those above it; the keys of one map, "
    "and the items of one list, start in the same column",
    "found character '\\t' that cannot start any token": "a tab; YAML is indented with spaces",
    "mapping values are not allowed here": "a second `:` in one line, or a line that is indented too far; put a nested "
    "key on a line of its own, and quote a text with `: ` in it",
}
"""How the parser reports a mistake in the indentation, and the message for it."""
_AWS_SECRET = re.compile(r"\$\{\{\s*aws_secrets:")
_UNSOUND = re.compile("[\0\ud800-\udfff]")
_NAMED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)


class Document:
    """Composes the one document of a YAML text.

    Args:
        text: The YAML.
        file: Its name in errors.
        environment: The variables of `${env:NAME}`.

    Attributes:
        problems: Errors after which the rest could still be read.
        substituted: How each text that was put in is written, e.g. `${env:NAME}`.
    """

    def __init__(self, text: str, file: str, environment: Mapping[str, str]) -> None:
        self.problems: list[SettingsProblem] = []
        self.substituted: dict[str, str] = {}
        self._text = text
        self._file = file
        self._environment = environment
        self._anchors: dict[str, YamlNode] = {}
        self._read = 0

    def compose(self) -> YamlNode:
        """Read the text.

        Raises:
            SettingsErrors: It is not YAML, with the location of the first error.
        """
        try:
            self._events = self._tokens()
            return self._document()
        except yaml.reader.ReaderError as error:
            before = self._text[: error.position]
            line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
            self._refuse(Location(self._file, line, column), "a control character, which YAML does not allow")
        except yaml.MarkedYAMLError as error:
            self._refuse(self._location(error.problem_mark or error.context_mark), self._syntax(error))
        except (yaml.YAMLError, ValueError, OverflowError, IndexError) as error:
            self._refuse(Location(self._file), f"this is not YAML ({type(error).__name__})")

    def _tokens(self) -> Iterator[Any]:
        return iter(yaml.parse(self._text, Loader=yaml.SafeLoader))

    def _document(self) -> YamlNode:
        next(self._events)  # the stream's start
        if isinstance(next(self._events), yaml.StreamEndEvent):
            self._refuse(Location(self._file), "the file is empty; it must contain at least one pipeline")
        root = self._node(next(self._events), 0)
        next(self._events)  # the document's end
        following = next(self._events)
        if isinstance(following, yaml.DocumentStartEvent):
            self._refuse(self._location(following.start_mark), "a second YAML document; a file contains only one")
        return root

    def _node(self, event: Any, depth: int) -> YamlNode:
        where = self._location(event.start_mark)
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                self._refuse(where, f"the alias *{event.anchor} has no anchor before it")
            node = self._anchors[event.anchor]
            self._check_depth(where, depth + node.height)
            return node
        self._check_depth(where, depth)
        self._read += 1
        node = self._value(event, where, depth)
        if max(node.size, self._read) > MAX_NODES:
            self._refuse(where, f"more than {MAX_NODES:,} values")
        if node.path_characters > MAX_PATH_CHARACTERS:
            self._refuse(where, "keys that are too long for so many values below them")
        if event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _value(self, event: Any, where: Location, depth: int) -> YamlNode:
        self._check_tag(event, where)
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event, where)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._list(where, depth)
        return self._map(where, depth)

    def _list(self, where: Location, depth: int) -> YamlNode:
        items: list[YamlNode] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            item = self._node(event, depth + 1)
            items.append(replace(item, at=item.where))
        paths = sum(item.path_characters + item.size * len(f"[{index}]") for index, item in enumerate(items))
        return _container(where, items, items, {}, paths)

    def _map(self, where: Location, depth: int) -> YamlNode:
        items: dict[str, YamlNode] = {}
        keys: dict[str, Location] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key_at = self._location(event.start_mark)
            key = self._node(event, depth + 1)
            child = self._node(next(self._events), depth + 1)
            if isinstance(key.value, dict | list):
                self.problems.append(SettingsProblem(key_at, "", "a key must be a text"))
            elif key.text in items:
                message = f"the key {shown(key.text)} appears twice; first on line {keys[key.text].line}"
                self.problems.append(SettingsProblem(key_at, "", message))
            else:
                items[key.text] = replace(child, at=key_at)
                keys[key.text] = key_at
        paths = sum(child.path_characters + child.size * (len(key) + 1) for key, child in items.items())
        return _container(where, items, items.values(), keys, paths)

    def _scalar(self, event: Any, where: Location) -> YamlNode:
        text: str = event.value
        before = len(self.problems)
        if _UNSOUND.search(text):
            self._note(where, "an invalid character (\\0 or half a surrogate pair)")
        if _AWS_SECRET.search(text):
            self._note(where, "${{aws_secrets:…}} is not supported; use ${env:NAME} or ${file:PATH}")
        if _SUBSTITUTED.search(text):
            complain = partial(self._note, where)
            value: Scalar = substitute(text, self._environment, complain, self.substituted)
            written = _SUBSTITUTED.sub(_without_default, text)
            return YamlNode(where, value, where, written, from_environment=True, broken=len(self.problems) > before)
        value = resolve(text) if event.implicit[0] else text
        return YamlNode(where, value, where, text, broken=len(self.problems) > before)

    def _check_tag(self, event: Any, where: Location) -> None:
        if event.tag not in (None, "!") and event.tag.rpartition(":")[2] not in ("str", "map", "seq"):
            self._note(where, f"the YAML tag {shown(event.tag)} is not supported")

    def _check_depth(self, where: Location, depth: int) -> None:
        if depth > MAX_DEPTH:
            self._refuse(where, f"nested more than {MAX_DEPTH} levels deep")

    def _note(self, where: Location, message: str) -> None:
        self.problems.append(SettingsProblem(where, "", message))

    def _refuse(self, where: Location, message: str) -> NoReturn:
        raise SettingsErrors([*self.problems, SettingsProblem(where, "", message)])

    def _location(self, mark: yaml.Mark | None) -> Location:
        return Location(self._file, mark.line + 1, mark.column + 1) if mark else Location(self._file)

    def _syntax(self, error: yaml.MarkedYAMLError) -> str:
        what = ", ".join(part for part in (error.context, error.problem) if part)
        if hint := next((hint for part, hint in _INDENTATION.items() if part in what), ""):
            return hint
        mark = error.problem_mark or error.context_mark
        line = self._text.split("\n")[mark.line : mark.line + 1] if mark else []
        hint = "; text with ${…} needs quotes here" if line and "${" in line[0] else ""
        return f"this is not YAML: {what}{hint}"


def _container(
    where: Location,
    value: list[YamlNode] | dict[str, YamlNode],
    children: Collection[YamlNode],
    keys: dict[str, Location],
    path_characters: int,
) -> YamlNode:
    size = 1 + sum(child.size for child in children)
    height = 1 + max((child.height for child in children), default=0)
    return YamlNode(where, value, where, keys=keys, size=size, height=height, path_characters=path_characters)


def substitute(
    text: str, environment: Mapping[str, str], complain: Callable[[str], None], substituted: dict[str, str]
) -> str:
    """Replace `${env:NAME}`, `${env:NAME:-default}` and `${file:PATH}`; `${/field}` and other formats stay.

    `substituted` gets what was put in, and how that is written.
    """

    def found(match: re.Match[str]) -> str:
        kind, name = match.groups()
        if not match[0].endswith("}"):
            complain(_USAGE[kind])
            return ""
        value, source = _from_file(name, complain) if kind == "file" else _from_environment(name, environment, complain)
        if _UNSOUND.search(value):
            complain(f"{source} is not UTF-8 text")
        substituted[value] = _without_default(match)
        return value

    return _SUBSTITUTED.sub(found, text)


def _without_default(match: re.Match[str]) -> str:
    """Return how a variable is written, for messages: its default may be a secret, too."""
    kind, name = match.groups()
    return f"${{{kind}:{name.partition(':-')[0]}}}" if kind == "env" else match[0]


def _from_environment(name: str, environment: Mapping[str, str], complain: Callable[[str], None]) -> tuple[str, str]:
    named = _NAMED.fullmatch(name)
    if named is None:
        complain(_USAGE["env"])
        return "", ""
    variable, default = named.groups()
    if default is None and variable not in environment:
        complain(f"the environment variable {variable} is not set; set it, or give ${{env:{variable}:-default}}")
    return environment.get(variable) or default or "", f"the environment variable {variable}"


def _from_file(name: str, complain: Callable[[str], None]) -> tuple[str, str]:
    """Return the content of a small file without the line end behind it: editors and `echo` add one."""
    source = f"the file {name!r}"
    try:
        with Path(name).open("rb") as file:
            content = file.read(_MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        complain(f"{source} cannot be read: {reason.lower()}" if name else _USAGE["file"])
        return "", source
    if len(content) > _MAX_FILE_BYTES:
        complain(f"{source} has more than {_MAX_FILE_BYTES >> 10} KiB; it should contain one value")
    return content.decode(errors="surrogateescape").removesuffix("\n").removesuffix("\r"), source
