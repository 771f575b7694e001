"""Answers requests of OTLP over HTTP. Runs on the server's event loop."""

from __future__ import annotations

from calve.compiled import otlp
from calve.sources.http.message import Request, RequestRefusedError, Response
from calve.sources.http.service import Service
from calve.sources.log.log import Journal
from calve.sources.log.record import RecordEvents
from calve.sources.otlp import answers
from calve.sources.otlp.grpc import METHODS
from calve.sources.otlp.settings import SIGNAL, OtlpSourceSettings

__all__ = ["MOST_BYTES", "OtlpService"]

MOST_BYTES = 1 << 30
"""What the rows of a request may take: each has a copy of its resource and scope, which may be large."""
_TYPES = (answers.PROTOBUF, answers.JSON)
_NOT_HELD = "No row holds a count above 2^63 - 1, or more than 100,000 events, links, exemplars, quantiles or buckets."


class OtlpService(Service):
    """Answers requests of the signals; the log keeps their bodies as Protobuf, and tasks decode them.

    A record of the log has the request's rows; the bytes of all of them stand at the first one.
    """

    def __init__(self, settings: OtlpSourceSettings, pipeline: str, log: Journal) -> None:
        signals = settings.signals(pipeline)
        super().__init__(settings, pipeline, ", ".join(signals), log)
        paths = signals | {METHODS[signal]: signal for signal in signals.values()}
        self._signals = {path.encode(): signal for path, signal in paths.items()}

    @property
    def url_path(self) -> str:
        """Nothing: clients add the paths themselves."""
        return ""

    def _has(self, path: bytes) -> bool:
        return path in self._signals

    def _body_refusal(self, request: Request) -> Response | None:
        if request.kind not in _TYPES:
            return Response(415, f"The Content-Type is {request.kind or 'missing'}; use {' or '.join(_TYPES)}.")
        return super()._body_refusal(request)

    def _read(self, request: Request, data: bytes, most: int) -> RecordEvents:
        signal = self._signals[request.path]
        if request.kind == answers.JSON:
            try:
                data = otlp.encode(signal, data)
            except otlp.NotOtlpError as error:
                raise RequestRefusedError(
                    Response(400, f"The body is no request of OTLP with {signal}: {error}.")
                ) from error
        read = otlp.check(signal, data, (most + 1, MOST_BYTES))
        if read is None:
            raise RequestRefusedError(Response(400, f"The body is no request of OTLP with {signal} in Protobuf."))
        if read.rows > most:
            raise RequestRefusedError(Response(413, f"The body has more than max_request_events: {most} events."))
        if read.has_more:
            why = f"The resource and scope of each record make the rows longer than {MOST_BYTES} bytes."
            raise RequestRefusedError(Response(413, why))
        request.success = answers.success(request, signal, read.rows, read.refused, _NOT_HELD)
        lengths = len(data).to_bytes(4, "little") + bytes(4 * (read.rows - 1)) if read.rows else b""
        return RecordEvents(read.rows, lengths, data if read.rows else b"")

    def _kept(self, request: Request) -> dict[str, str]:
        return {f":{SIGNAL}": self._signals[request.path], **super()._kept(request)}

    def _phrased(self, request: Request, response: Response) -> Response:
        if request.path not in self._signals or request.method == b"OPTIONS":
            return response
        if response.status >= 400:
            return answers.refusal(request, response)
        if response.text:
            self.refusals.partly(response.text)
        return response
