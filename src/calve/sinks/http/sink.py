"""An HTTP sink on the driver: its part of a job. A task sends; nothing is left to commit."""

from __future__ import annotations

from functools import partial

from calve.engine.engine import Engine
from calve.sinks.http.client import HttpClient
from calve.sinks.http.job import RequestJob
from calve.sinks.http.settings import HttpSinkSettings
from calve.sinks.records.sink import LineSink
from calve.sinks.sink import Opening, Sink

__all__ = ["HttpSink", "open", "probe"]


class HttpSink(LineSink):
    """The HTTP sink (`Sink`); runs on the driver.

    Args:
        opening: Its settings and tools.
    """

    def __init__(self, opening: Opening) -> None:
        self._settings: HttpSinkSettings = opening.entry.value
        super().__init__(opening, self._settings.address, "url", partial(RequestJob, settings=self._settings))

    def open(self) -> None:
        """See that the server answers."""
        HttpClient(self._settings).reach()


def open(opening: Opening) -> Sink:
    """Create an HTTP sink; it connects in `Sink.open`."""
    return HttpSink(opening)


def probe(settings: HttpSinkSettings, spark: Engine | None) -> None:
    """Check that the server answers.

    Raises:
        CalveError: It does not.
    """
    HttpClient(settings).reach()
