from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner, Result

from calve.cli import main
from calve.compiled import library
from calve.observe.watch import Watch
from calve.settings import PipelineSettings, Plugins, option


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in (None, *logging.root.manager.loggerDict)]
    before = [(logger, logger.handlers[:], logger.propagate, logger.level) for logger in loggers]
    yield
    for logger, handlers, propagate, level in before:
        logger.handlers[:], logger.propagate = handlers, propagate
        logger.setLevel(level)


@dataclass(frozen=True)
class NothingSettings:
    """Reads nothing."""

    size: int = option(1, "How much of nothing.", minimum=0)


@dataclass(frozen=True)
class NowhereSettings:
    """Writes nowhere."""

    place: str = option(doc="Where not.")


@dataclass(frozen=True)
class RunOptions:
    state: str
    master: str | None
    conf: dict[str, str]
    once: bool
    give_up_after: timedelta
    standby: bool = False
    allow_empty: bool = False


GOOD = "orders:\n  source:\n    nothing: {}\n  sink:\n    - nowhere:\n        place: here\n"


@dataclass
class Pipelines:
    """Stands in for the package `calve.pipeline`, so that these tests need no Spark."""

    work: Callable[[Sequence[PipelineSettings], RunOptions, Watch], int] = lambda pipelines, options, watch: 0
    problems: list[str] = field(default_factory=list)
    conf: dict[str, str] = field(default_factory=dict)
    ran: list[tuple[list[str], RunOptions]] = field(default_factory=list)

    def check(self, found: Sequence[PipelineSettings], conf: dict[str, str]) -> list[str]:
        self.conf = conf
        return self.problems

    def run(self, pipelines: Sequence[PipelineSettings], options: RunOptions, watch: Watch, *early: object) -> int:
        self.ran.append(([one.name for one in pipelines], options))
        return self.work(pipelines, options, watch)


@pytest.fixture
def _modules_as_before() -> Iterator[None]:
    """Forget the modules of Calve that a test imports, and what they stand for in their packages."""
    before = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "calve"}
    held = {name: dict(vars(module)) for name, module in before.items()}
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "calve"]:
        del sys.modules[name]
    sys.modules.update(before)
    for name, module in before.items():
        for child in vars(module).keys() - held[name].keys():
            delattr(module, child)
        vars(module).update(held[name])


@pytest.fixture
def pipelines(_modules_as_before: None) -> Pipelines:
    """The package `calve.pipeline` with a source that reads nothing and a sink that writes nowhere."""
    pipelines = Pipelines()
    for name, content in {
        "pipeline": {},
        "pipeline.run": {"run": pipelines.run, "RunOptions": RunOptions},
        "pipeline.spark_needs": {"needs_s3": lambda found: False, "spark_conf": lambda found, conf: conf},
        "engine.process": {"start_early": lambda *chosen: None, "abandon_all": lambda: None},
        "pipeline.plugins": {
            "PLUGINS": Plugins(sources={"nothing": NothingSettings}, sinks={"nowhere": NowhereSettings})
        },
        "operate.probe": {"check": pipelines.check},
    }.items():
        module = ModuleType(f"calve.{name}")
        vars(module).update(content)
        sys.modules[module.__name__] = module
        parent, _, child = module.__name__.rpartition(".")
        setattr(importlib.import_module(parent), child, module)
    for name in ("run", "validate", "schema"):
        sys.modules.pop(f"calve.cli.{name}", None)
    return pipelines


@dataclass
class Shell:
    """Runs `calve` in a folder of its own, and as if this machine had the compiled core."""

    folder: Path

    def __call__(self, *arguments: str) -> Result:
        return CliRunner().invoke(main.calve, arguments, prog_name="calve")

    def write(self, name: str, text: str) -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return name


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(library, "missing", lambda: None)
    return Shell(tmp_path)
