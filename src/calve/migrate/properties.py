"""The properties of a connector that are still to be converted, and remarks on those that have no counterpart."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

__all__ = ["Properties", "listed", "shown"]

_SECRET = re.compile(r"pass|secret|token|credential|jaas|auth\.user\.info|\.key\b|access-key", re.IGNORECASE)
_PROVIDED = re.compile(r"\$\{(\w+):([^}]*)\}")
"""A value that one of Kafka Connect's `ConfigProvider`s reads: its name, and what it shall read."""


@dataclass
class Properties:
    """Hands out each property once; those that nobody takes are left for a remark.

    Attributes:
        values: What is left.
        remarks: For a property, or for what concerns none (an empty name), what to do instead.
    """

    values: dict[str, str]
    remarks: list[tuple[str, str]] = field(default_factory=list)

    def pop(self, name: str, default: str = "") -> str:
        """Return the value of a property without blanks around it, or the default; it is then done."""
        value = self.values.pop(name, None)
        return default if value is None else self._provided(name, value.strip())

    def flag(self, name: str) -> bool:
        """Return whether a property is true; it is then done."""
        return self.pop(name).lower() == "true"

    def below(self, prefix: str) -> dict[str, str]:
        """Return all properties that begin with a prefix, without it; they are then done."""
        names = [name for name in self.values if name.startswith(prefix)]
        return {name.removeprefix(prefix): self.pop(name) for name in names}

    def remark(self, text: str, *names: str) -> None:
        """Say what to do instead of the properties of these names, if they are set; they are then done."""
        for name in names:
            if name in self.values:
                self.remarks.append((f"{name} = {shown(name, self.values.pop(name))}", text))

    def remark_below(self, text: str, prefix: str) -> None:
        """As `remark`, for all properties that begin with a prefix."""
        self.remark(text, *[name for name in self.values if name.startswith(prefix)])

    def advise(self, text: str) -> None:
        """Say what concerns no single property."""
        self.remarks.append(("", text))

    def _provided(self, name: str, value: str) -> str:
        """Replace what a `ConfigProvider` reads: files and vaults have no counterpart, the environment has."""

        def replaced(match: re.Match[str]) -> str:
            provider, what = match.groups()
            variable = what.rpartition(":")[2] if provider == "env" else _variable(what.rpartition(":")[2] or name)
            if provider != "env":
                self.remarks.append((f"{name} = {match[0]}", f"Set the environment variable {variable} instead"))
            return f"${{env:{variable}:-}}"

        return _PROVIDED.sub(replaced, value)


def _variable(text: str) -> str:
    return re.sub(r"\W+", "_", text).strip("_").upper() or "VALUE"


def shown(name: str, value: str) -> str:
    """Return the value of a property for a comment: never a secret."""
    return "…" if _SECRET.search(name) else value


def listed(text: str, separator: str = r",") -> list[str]:
    """Return the parts of a text between commas, without blanks and empty parts."""
    return [part.strip() for part in re.split(separator, text) if part.strip()]
