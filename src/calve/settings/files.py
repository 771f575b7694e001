"""Finds the YAML of a configuration: one file, or all `*.yaml` and `*.yml` files of a folder, merged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar, cast

from calve.settings.bind import Binder
from calve.settings.document import Document
from calve.settings.node import YamlNode, kind
from calve.settings.problems import Location, SettingsErrors, SettingsProblem, shown

__all__ = ["Merged", "settings_of_file"]

T = TypeVar("T")
MAX_BYTES = 1 << 20
_SHORTEST_SECRET = 4
"""Shorter texts from the environment are numbers and words that a message may have by chance."""


def settings_of_file(path: Path, settings: type[T]) -> T:
    """Read a YAML file that is one map of options.

    Args:
        path: The file; errors begin with it.
        settings: A frozen dataclass of options.

    Raises:
        SettingsErrors: It cannot be read, or has errors.
    """
    try:
        content = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        problem = SettingsProblem(Location(str(path)), "", f"this file cannot be read: {reason or error}")
        raise SettingsErrors([problem]) from None
    document, binder = Document(content, str(path), {}), Binder()
    value = binder.record(settings, document.compose(), "")
    if problems := [*document.problems, *binder.problems]:
        raise SettingsErrors(problems)
    return cast(T, value)


@dataclass
class Merged:
    """The top-level keys of all files, and what was wrong with the files.

    Attributes:
        environment: The variables of `${env:NAME}`.
        entries: The value of each top-level key; its `at` is the key's location.
        problems: What was wrong; a file that cannot be read leaves the others.
        substituted: How each text from the environment and from files is written in the YAML.
    """

    environment: Mapping[str, str]
    entries: dict[str, YamlNode] = field(default_factory=dict)
    problems: list[SettingsProblem] = field(default_factory=list)
    substituted: dict[str, str] = field(default_factory=dict)

    def add_path(self, path: Path) -> None:
        """Read a file or a folder."""
        try:
            files = self._files(path) if path.is_dir() else [path]
        except OSError as error:
            self._refuse(str(path), f"this folder cannot be read: {error.strerror or error}")
            return
        for file in files:
            self._add_file(file)

    def _files(self, folder: Path) -> list[Path]:
        files = sorted(file for file in folder.iterdir() if file.suffix in (".yaml", ".yml"))
        if not files:
            self._refuse(str(folder), "no *.yaml or *.yml file is in this folder")
        return files

    def add_text(self, text: str, name: str) -> None:
        """Read YAML text; `name` stands for the file in errors."""
        document = Document(text, name, self.environment)
        try:
            root = document.compose()
        except SettingsErrors as errors:
            self.problems += errors.problems
            return
        self.problems += document.problems
        self.substituted |= document.substituted
        if not isinstance(root.value, dict):
            self._refuse(name, f"expected pipelines by name (a map), found {kind(root)}", root.where)
            return
        for key, node in root.value.items():
            if key in self.entries:
                message = f"the key {shown(key)} appears twice; first at {self.entries[key].at}"
                self.problems.append(SettingsProblem(node.at, "", message))
            else:
                self.entries[key] = node

    def without_secrets(self, problem: SettingsProblem) -> SettingsProblem:
        """Return a problem whose message names `${env:NAME}` instead of its value, which may be a secret."""
        message = problem.message
        for value in sorted(self.substituted, key=len, reverse=True):
            if len(value) >= _SHORTEST_SECRET:
                message = message.replace(value, self.substituted[value])
        return replace(problem, message=message)

    def _add_file(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                content = file.read(MAX_BYTES + 1)
            text = content.decode("utf-8-sig")
        except OSError as error:
            self._refuse(str(path), f"this file cannot be read: {error.strerror or error}")
        except UnicodeDecodeError as error:
            line = error.object[: error.start].count(b"\n") + 1
            column = error.start - (error.object.rfind(b"\n", 0, error.start) + 1) + 1
            message = f"this is not UTF-8 text (byte 0x{error.object[error.start]:02x})"
            self._refuse(str(path), message, Location(str(path), line, column))
        else:
            if len(content) > MAX_BYTES:
                self._refuse(str(path), f"this file is larger than {MAX_BYTES >> 20} MB")
            else:
                self.add_text(text, str(path))

    def _refuse(self, file: str, message: str, location: Location | None = None) -> None:
        self.problems.append(SettingsProblem(location or Location(file), "", message))
