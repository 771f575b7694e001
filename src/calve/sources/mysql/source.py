"""The mysql source: opened, and probed."""

from __future__ import annotations

from calve.sources.database.source import DatabaseSource
from calve.sources.mysql.reader import MysqlReader
from calve.sources.mysql.settings import MysqlSettings
from calve.sources.mysql.system import MysqlSystem, check
from calve.sources.source import ALONE, SourceContext
from calve.state.folder import StateFolder

__all__ = ["check", "open", "probe"]


def open(settings: MysqlSettings, folder: StateFolder, pipeline: str, context: SourceContext = ALONE) -> DatabaseSource:
    """Return the source of a pipeline; it has no side effects before `start`."""
    return DatabaseSource(MysqlReader(settings, str(folder.absolute()), pipeline), context.shared_targets, MysqlSystem)


def probe(settings: MysqlSettings, folder: StateFolder, pipeline: str, context: SourceContext) -> None:
    """Check what a first start needs, and change nothing; see `check`."""
    check(settings, pipeline, context.shared_targets)
