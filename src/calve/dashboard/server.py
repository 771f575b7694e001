"""Serves the pages, and takes a sample of every pipeline every ten seconds."""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType
from wsgiref.simple_server import make_server

from calve.dashboard.app import App
from calve.dashboard.history import SAMPLE_SECONDS
from calve.errors import CalveError, SettingsError
from calve.observe.log import Log
from calve.observe.status_file import read_all
from calve.observe.ticker import Ticker
from calve.observe.web_server import Quiet, server_class

__all__ = ["Dashboard", "history_file"]

_SAVE_EVERY = 6
"""Samples between two writes of the file."""


def history_file(state: str) -> Path | None:
    """Return the file of the history: in a local state folder, `_dashboard/history.json`; else there is none."""
    if "://" in state and not state.startswith("file://"):
        return None
    return Path(state.removeprefix("file://")).expanduser().absolute() / "_dashboard" / "history.json"


class Dashboard:
    """Serves the pages within its context.

    Args:
        app: The pages.
        port: The port; 0 is any free port.

    Attributes:
        url: Its address.

    Raises:
        SettingsError: The address cannot be used (`__enter__`).
    """

    def __init__(self, app: App, port: int) -> None:
        self._app, self._port = app, port
        self._samples = 0
        self._failure = ""
        self.url = ""

    def sample(self) -> None:
        """Take a sample of every pipeline; a state that does not answer is logged once."""
        try:
            reports, broken = read_all(self._app.state)
            self._app.history.add(reports)
            failure = next(map(str, broken.values()), "")
        except (CalveError, OSError, ValueError) as error:
            failure = str(error)
        if failure and failure != self._failure:
            Log().warning(f"dashboard: {failure}")
        self._failure = failure
        self._samples += 1
        if self._samples % _SAVE_EVERY == 0:
            self._app.history.save()

    def __enter__(self) -> Dashboard:
        host = self._app.access.host
        try:
            self._server = make_server(host, self._port, self._app, server_class(host), Quiet)
        except OSError as error:
            raise SettingsError(
                f"The dashboard cannot listen on {host}:{self._port}: {error.strerror or error}",
                step="dashboard",
                target="--port",
                hint="Choose another port: --port 9602",
            ) from error
        name = f"[{host}]" if ":" in host else host
        self.url = f"http://{name}:{self._server.server_port}{self._app.access.first_path}"
        self.sample()
        self._ticker = Ticker("calve-dashboard", SAMPLE_SECONDS, self.sample)
        self._thread = threading.Thread(target=self._server.serve_forever, name="dashboard", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._ticker.close()
        self._app.history.save()
        if self._app.actions:
            self._app.actions.close()
