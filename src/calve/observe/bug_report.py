"""Reports of unexpected failures: one file for each cause, to attach to a bug report, and one log line."""

from __future__ import annotations

import platform
import re
import zlib
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

from calve.credentials import without_credentials
from calve.errors import CalveError
from calve.observe.humanize import many
from calve.observe.log import Log
from calve.state.folder import StateFolder

__all__ = ["BugReports"]

_PACKAGES = ("calve", "pyspark", "duckdb", "pyarrow", "pyiceberg", "numpy", "confluent-kafka")
_VALUES = re.compile(r"0x[0-9a-f]+|\d+")


class BugReports:
    """The reports of one pipeline; runs on the driver.

    Args:
        folder: `<state>/<pipeline>`, the folder of the files.
        log: Logs their paths.
    """

    def __init__(self, folder: StateFolder, log: Log) -> None:
        self._folder = folder
        self._log = log

    def begins(self, batch: int, error: CalveError) -> None:
        """Write the report of a failed batch, and log that it will be divided."""
        self._written(error)
        self._log.warning(
            f"batch {batch} failed at step {error.step}: {error.message}; searching for the events that cause it",
            batch=batch,
            values=error.message,
        )

    def found(self, batch: int, events: Mapping[str, int], causes: list[CalveError]) -> None:
        """Write a report for each new cause, and log what was left out.

        Args:
            batch: The batch.
            events: How many events became dead letters, by table (empty: not known).
            causes: The errors.
        """
        files = sorted({self._written(cause) for cause in causes})
        foreseen = next((cause.hint for cause in causes if cause.hint and not getattr(cause, "evidence", "")), "")
        for table, count in events.items():
            self._log.warning(
                f"{many(count, 'event')}{f' of {table}' if table else ''} could not be processed and became "
                f"dead letters (UNPROCESSABLE); all other events of batch {batch} are written",
                batch=batch,
                table=table,
                hint=foreseen
                or f"This is a bug in Calve. Please report it and attach {', '.join(map(str, files))} "
                "(versions and a traceback, no events)",
            )

    def _written(self, cause: CalveError) -> str:
        """Write the report of a cause unless it exists; return its location."""
        evidence = without_credentials(getattr(cause, "evidence", "") or cause.message)
        key = zlib.crc32(_VALUES.sub("", f"{cause.step} {evidence}").encode())
        name = f"bug-{key:08x}.txt"
        content = "\n".join([*_versions(), f"step {cause.step}", "", evidence, ""]).encode()
        self._folder.create(name, content)
        return str(self._folder / name)


def _versions() -> list[str]:
    lines = [f"python {platform.python_version()}, {platform.platform()}"]
    for name in _PACKAGES:
        try:
            lines.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return lines
