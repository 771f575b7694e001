"""A small world of plugins with an option of every kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import pytest

from calve.errors import SettingsError
from calve.settings import Plugins, SettingsErrors, Size, option, parse_text


@dataclass(frozen=True)
class Csv:
    """Text in columns."""

    delimiter: str = option(",", "What separates.", minimum=1, maximum=1)


@dataclass(frozen=True)
class Codec:
    """How it is written."""

    csv: Csv | None = option(None, "Columns.")
    json: Csv | None = option(None, "JSON.")


@dataclass(frozen=True)
class Topic:
    """A topic."""

    name: str = option(doc="Its name.")
    workers: int = option(2, "How many.", minimum=1, maximum=200)

    def check(self) -> Iterator[tuple[str, str]]:
        if self.name == "bad":
            yield "name", "is bad"


def even(number: int) -> None:
    if number % 2:
        raise SettingsError(f"{number} is odd", hint="Add one")


@dataclass(frozen=True)
class Every:
    """Has an option of every kind."""

    port: int = option(2021, "A port.", minimum=0, maximum=65535)
    ratio: float = option(0.5, "A share.")
    flag: bool = option(False, "A switch.")
    mode: Literal["null", "dlq"] = option("null", "A choice.")
    wait: timedelta = option(timedelta(seconds=10), "A time.", minimum=timedelta(milliseconds=2))
    timeout: timedelta = option(timedelta(seconds=10), "A time in milliseconds.", unit="ms")
    limit: Size = option(Size(64 << 20), "A size.", minimum=1024)
    folder: Path | None = option(None, "A folder.")
    topics: list[Topic] = option([], "Topics.", maximum=2, aliases=("themes",))
    path: str | list[str] = option("a", "One path or several.")
    headers: dict[str, str] = option({}, "Headers.")
    codec: Codec = option(Codec(), "A codec.")
    backup: Codec | None = option(None, "Another.")
    anything: Any = option(None, "Whatever.")
    password: str | None = option(None, "A secret.", secret=True, minimum=8)
    even: int = option(0, "An even number.", check=even)

    def check(self) -> Iterator[tuple[str, str]]:
        if self.flag and self.port == 0:
            yield "port", "cannot be 0 while `flag` is true"


@dataclass(frozen=True)
class Strict:
    """Cannot do without a name."""

    name: str = option(doc="Needed.")


def condition(text: str) -> None:
    if "??" in text:
        raise SettingsError("?? is no operator", hint="Use ==")


EVERY = Plugins(
    sources={"every": Every, "strict": Strict},
    sinks={"every": Every, "strict": Strict},
    processors={"strict": Strict},
    condition=condition,
)


@pytest.fixture(scope="session")
def plugins() -> Plugins:
    return EVERY


@pytest.fixture
def source(plugins: Plugins) -> Callable[..., Any]:
    """Read the options of one `every` source, given as YAML of a flow map's inside."""

    def read(options: str, environment: dict[str, str] | None = None) -> Any:
        text = f"p: {{source: {{every: {{{options}}}}}, sink: [every: ]}}"
        return parse_text(text, plugins, environment=environment or {}).pipelines[0].source.value

    return read


@pytest.fixture
def refused(plugins: Plugins) -> Callable[..., list[str]]:
    """Give the errors of a YAML text as `line:column: path: message`."""

    def read(text: str, environment: dict[str, str] | None = None) -> list[str]:
        with pytest.raises(SettingsErrors) as caught:
            parse_text(text, plugins, name="f", environment=environment or {})
        return [line.removeprefix("f:") for line in str(caught.value).split("\n")]

    return read


@pytest.fixture
def complaint(refused: Callable[..., list[str]]) -> Callable[..., str]:
    """Give the only error of one `every` source, without its place and the path of the source."""

    def read(options: str, environment: dict[str, str] | None = None) -> str:
        (line,) = refused(f"p: {{source: {{every: {{{options}}}}}, sink: [every: ]}}", environment)
        return line.split(": ", 1)[1].removeprefix("p.source.every.")

    return read
