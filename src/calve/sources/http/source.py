"""The `http` source on the driver: a server in front of a log, and a planner behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from calve.errors import InvariantError, SourceError
from calve.sources.http.connection import ClientConnection
from calve.sources.http.keys import KeyStore
from calve.sources.http.reader import HttpReader
from calve.sources.http.server import HttpServer, try_port
from calve.sources.http.service import Service
from calve.sources.http.settings import HttpSettings, ListenerSettings
from calve.sources.log.index import LogPosition, SegmentIndex
from calve.sources.log.log import Journal, JournalLimits
from calve.sources.source import ALONE, Backlog, Planned, Position, Reader, SourceContext
from calve.state.folder import StateFolder

__all__ = ["HttpSource", "check_start", "open", "probe"]


class HttpSource:
    """Accepts events over HTTP, keeps them in a log, and plans batches from it.

    A request is answered 200 when its events are on disk, or on the object store, and never before; a segment of the
    log is deleted when all of its events are committed.

    Args:
        settings: What the server needs to know.
        folder: The log's folder.
        pipeline: The pipeline.
        reader: Reads the log's records.
        service_of: Makes the service that answers, with the log.
        connection: Serves a client.
    """

    def __init__(
        self,
        settings: ListenerSettings,
        folder: StateFolder,
        pipeline: str,
        reader: Reader,
        service_of: Callable[[Journal], Service],
        connection: type[ClientConnection] = ClientConnection,
    ) -> None:
        self.reader = reader
        self._settings = settings
        self._folder = folder
        self._index = SegmentIndex(folder)
        self._keys = KeyStore(folder, settings.idempotency_window, settings.idempotency_keys)
        limits = JournalLimits(settings.max_log_bytes, settings.min_free_bytes)
        self._log = Journal(folder, self._index, self._keys, limits, pipeline)
        self._service = service_of(self._log)
        self._server = HttpServer(settings, self._service, connection)
        self._serving = False

    def start(self, position: Position | None, once: bool, pending: Sequence[Planned] = ()) -> None:
        """Load the log's events after a position, and, unless `once`, accept requests.

        Raises:
            PositionLostError: The log no longer has the events after the position.
            SourceError: The log is damaged or cannot be written, or the port cannot be used.
            WriteError: The object store does not answer; may be repeated.
        """
        try:
            self._folder.make()
            self._keys.load()
            self._index.load(position)
            self._keys.add(key for segment in self._index.segments for key in segment.keys)
            self._log.open(self._server.answered)
        except OSError as error:
            raise SourceError(
                f"the log of accepted events in {self._folder} cannot be used: {error.strerror}",
                step="start",
                target=str(self._folder),
                hint="Check its permissions and the space on its disk",
            ) from error
        if not once:
            self._serve()

    def _serve(self) -> None:
        try:
            self._server.start()
        except SourceError:
            self._log.close()
            raise
        self._serving = True

    @property
    def address(self) -> tuple[str, int]:
        """Host and port it listens on, the first of several."""
        return self._server.addresses[0]

    @property
    def url(self) -> str | None:
        """The URL for clients, or several; None while it does not listen."""
        if not self._serving:
            return None
        scheme = "https" if self._settings.ssl else "http"
        hosts = [(f"[{host}]" if ":" in host else host, port) for host, port in self._server.addresses]
        return " and ".join(f"{scheme}://{host}:{port}{self._service.url_path}" for host, port in hosts)

    def backlog(self, position: Position | None) -> Backlog:
        """Return the size of the events after a position.

        Raises:
            InvariantError: The server or the log has ended by itself.
            OvertakenError: Another driver has the log by now.
        """
        if self._log.overtaken is not None:
            raise self._log.overtaken
        if self._serving and not (self._server.alive and self._log.alive):
            raise InvariantError("the http source has ended by itself", step="read", hint="Start the pipeline again")
        refusing, refused = self._server.refusing, dict(self._service.refusals.counts)
        return replace(self._index.backlog(position), refusing=refusing, refused=refused)

    def plan(self, position: Position | None, max_bytes: int) -> Planned | None:
        """Return the next splits after a position."""
        return self._index.plan(position, max_bytes)

    def acknowledge(self, planned: Planned) -> None:
        """Let the log delete the events of a committed batch."""
        self._log.release(LogPosition.of(planned.position))

    def stop(self) -> None:
        """Stop accepting requests, answer those that have arrived, and close. May be called twice."""
        self._serving = False
        self._server.stop()
        self._log.close()


def open(settings: HttpSettings, folder: StateFolder, pipeline: str, context: SourceContext = ALONE) -> HttpSource:
    """Return the source of a pipeline; it has no side effects before `start`."""
    reader = HttpReader(str(folder.absolute()), settings.kept_headers)
    path = settings.path.replace("${pipelineName}", pipeline)
    return HttpSource(settings, folder, pipeline, reader, lambda log: Service(settings, pipeline, path, log))


def probe(settings: ListenerSettings, folder: StateFolder, pipeline: str, context: SourceContext) -> None:
    """Check that the port and the certificate can be used; no client is accepted.

    Raises:
        SourceError: They cannot.
    """
    try_port(settings)


def check_start(settings: ListenerSettings, pipeline: str, once: bool, is_new: bool) -> None:
    """Check the port and the certificate, unless the run listens to nobody.

    Raises:
        SourceError: They cannot be used.
    """
    if not once:
        try_port(settings)
