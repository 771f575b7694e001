"""The options of the stdout sink."""

from __future__ import annotations

from dataclasses import dataclass

from calve.settings import Size, option
from calve.sinks.records.settings import LineSettings

__all__ = ["SETTINGS", "StdoutSettings"]


@dataclass(frozen=True)
class StdoutSettings(LineSettings):
    """Prints events as lines on the standard output of `calve run`, e.g. to look at them or for a pipe."""

    max_batch_bytes: Size = option(Size(4 << 20), "Maximum amount of data of a batch.", minimum=1, maximum=64 << 20)


SETTINGS = StdoutSettings
