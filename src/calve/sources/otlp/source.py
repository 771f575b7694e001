"""The `otlp` source on the driver: the server and the log of `http`, with OTLP's requests."""

from __future__ import annotations

from calve.compiled.library import missing
from calve.errors import SourceError
from calve.sources.http import source as http
from calve.sources.http.source import HttpSource
from calve.sources.otlp.http2 import EitherConnection
from calve.sources.otlp.reader import OtlpReader
from calve.sources.otlp.service import OtlpService
from calve.sources.otlp.settings import OtlpSourceSettings
from calve.sources.source import ALONE, SourceContext
from calve.state.folder import StateFolder

__all__ = ["check_start", "open", "probe"]


def open(
    settings: OtlpSourceSettings, folder: StateFolder, pipeline: str, context: SourceContext = ALONE
) -> HttpSource:
    """Return the source of a pipeline; it has no side effects before `start`."""
    reader = OtlpReader(str(folder.absolute()), settings.kept_headers, tuple(settings.promote))
    return HttpSource(
        settings, folder, pipeline, reader, lambda log: OtlpService(settings, pipeline, log), EitherConnection
    )


def probe(settings: OtlpSourceSettings, folder: StateFolder, pipeline: str, context: SourceContext) -> None:
    """Check the compiled core, the port and the certificate; no client is accepted.

    Raises:
        SourceError: They cannot be used.
    """
    _check_core()
    http.probe(settings, folder, pipeline, context)


def check_start(settings: OtlpSourceSettings, pipeline: str, once: bool, is_new: bool) -> None:
    """Check the compiled core, and the port and the certificate, unless the run listens to nobody.

    Raises:
        SourceError: They cannot be used.
    """
    _check_core()
    http.check_start(settings, pipeline, once, is_new)


def _check_core() -> None:
    if reason := missing():
        text = f"OpenTelemetry's requests are decoded by the compiled core alone. {reason}"
        raise SourceError(text, step="start", target="otlp", hint=reason.hint)
