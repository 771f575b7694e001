"""`calve dashboard`."""

from __future__ import annotations

import os
import secrets
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from calve.cli import failures, options
from calve.cli.catalogs import pipelines, sinks_at
from calve.cli.help import Command
from calve.errors import SettingsError
from calve.observe.log import Log, configure

if TYPE_CHECKING:
    from calve.observe.blueprint import SinkPart

__all__ = ["dashboard"]


_SHORTEST = 8


@click.command(cls=Command)
@options.state
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; others need a password.")
@click.option("--port", type=click.IntRange(0, 65535), default=9601, show_default=True, help="Port to listen on.")
@click.option("--name", "names", multiple=True, metavar="HOST", help="A name of this host in browsers; repeatable.")
@click.option(
    "--actions",
    type=click.Path(exists=True, path_type=Path),
    metavar="PATH",
    help="Allow actions on the pipelines of this YAML file or folder; needs a password.",
)
@click.option(
    "--password-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="File with the password. [default: the variable CALVE_DASHBOARD_PASSWORD]",
)
@pipelines
@click.option("--no-rows", is_flag=True, help="Show no rows of tables.")
@click.option("--with-parent", is_flag=True, hidden=True, help="End at the end of stdin.")
@options.debug
@click.pass_context
def dashboard(
    ctx: click.Context,
    /,
    state: str,
    host: str,
    port: int,
    names: tuple[str, ...],
    actions: Path | None,
    password_file: Path | None,
    pipelines: Path | None,
    no_rows: bool,
    with_parent: bool,
) -> None:
    """Show the pipelines of a state folder as web pages: rate, lag, freshness, rejects, tables, commits, errors.

    It reads the status files and does not touch the pipelines. The lines of the last hour begin when it starts; they
    are kept in the state folder, in _dashboard/. `calve run --dashboard` starts it together with a run.

    The page of a table has its newest rows; if its catalog is no file of this machine, name the YAML: --pipelines.

    Without --actions nothing can be changed. With it, and a password, the pages can pause and resume pipelines, replay
    dead letters and maintain tables, by the commands of the same names. Without a password the log has the address to
    open; it contains a token, because other users of the machine can reach the port.

    Examples:
      calve dashboard --pipelines orders.yaml
      calve dashboard --state /var/lib/calve --actions pipelines/ --password-file /etc/calve/password
      CALVE_DASHBOARD_PASSWORD=… calve dashboard --host 0.0.0.0 --name calve.example.com
    """
    from calve.dashboard.access import VARIABLE, AccessRules, is_loopback
    from calve.dashboard.actions import Actions  # here, so that `calve dashboard --help` is fast
    from calve.dashboard.app import App
    from calve.dashboard.history import SampleHistory
    from calve.dashboard.pipeline_pages import PipelinePages
    from calve.dashboard.server import Dashboard, history_file
    from calve.dashboard.table_view import TableReader

    configure(debug=ctx.meta[failures.DEBUG])
    password = _password(password_file, VARIABLE)
    if not password and not is_loopback(host):
        raise _refused(f"The address {host} needs a password, because others can reach it")
    if not password and actions:
        raise _refused("--actions needs a password")
    acts = Actions(state, actions) if actions else None
    access = AccessRules(password, host, names, "" if password else secrets.token_urlsafe(32))
    history = SampleHistory(history_file(state))
    pages = PipelinePages(state, history, _sinks(pipelines, actions), TableReader(not no_rows))
    with Dashboard(App(state, history, access, acts, pages), port) as served:
        Log().info(f"dashboard: {served.url}")
        _wait(with_parent)


def _sinks(pipelines: Path | None, actions: Path | None) -> Mapping[str, tuple[SinkPart, ...]]:
    """Return the sinks of the pipelines; without --pipelines what is wrong in the YAML is only logged."""
    try:
        return sinks_at(path) if (path := pipelines or actions) else {}
    except SettingsError as error:
        if pipelines:
            raise
        Log().warning(f"pages of tables may lack their rows: {error}")
        return {}


def _password(file: Path | None, variable: str) -> str:
    """Return the password, or nothing.

    Raises:
        SettingsError: It is too short.
    """
    password = file.read_text(encoding="utf-8").strip() if file else os.environ.get(variable, "")
    if len(password) < _SHORTEST and (password or file):
        raise _refused(f"The password has fewer than {_SHORTEST} characters")
    return password


def _refused(message: str) -> SettingsError:
    hint = f"Write a password of at least {_SHORTEST} characters to a file, and name it: --password-file FILE"
    return SettingsError(message, step="dashboard", target="--password-file", hint=hint)


def _wait(with_parent: bool) -> None:
    """Wait for Ctrl-C, SIGTERM, or the end of the parent process."""
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())

    def read() -> None:
        sys.stdin.buffer.read()
        ended.set()

    if with_parent:
        threading.Thread(target=read, name="parent", daemon=True).start()
    while not ended.wait(0.5):  # handlers run only while the main thread is awake
        pass
