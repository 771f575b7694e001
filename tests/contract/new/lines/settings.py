from dataclasses import dataclass

from calve.settings import option
from calve.sinks.settings import SinkSettings


@dataclass(frozen=True)
class SETTINGS(SinkSettings):
    """Writes events as lines."""

    folder: str = option(doc="The folder of the files.")
