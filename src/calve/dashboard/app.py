"""The pages by their paths, as a WSGI application."""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Any
from urllib.parse import quote

import jinja2

from calve.dashboard.access import COOKIE, FIRST, AccessRules, Session
from calve.dashboard.actions import Actions
from calve.dashboard.chart import HEIGHT, WIDTH, charts
from calve.dashboard.history import SampleHistory
from calve.dashboard.model import by_level, by_problem, overview, problems, tables, unreadable
from calve.dashboard.pipeline_pages import PipelinePages
from calve.dashboard.rejects import newest
from calve.dashboard.web import PageRequest, PageResponse, redirect
from calve.dead_letters.pending import PendingInState
from calve.errors import CalveError
from calve.observe.humanize import ago, harmless, many
from calve.observe.log import Log
from calve.observe.report import PipelineReport
from calve.observe.status_file import read_all, read_replay, read_report

__all__ = ["App"]

_STATIC = {
    "icon.svg": "image/svg+xml",
    "style.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
}
_MOST_TABLES = 100
_COOKIE = f"{COOKIE}={{}}; Path=/; HttpOnly; SameSite=Strict"


@dataclass(frozen=True)
class App:
    """The pages of a state folder.

    Attributes:
        state: The state folder.
        history: The figures of the last hour.
        access: Who may see and act.
        actions: The actions; None: there are none.
        pages: The pages of one pipeline; None: those of the state folder alone.
    """

    state: str
    history: SampleHistory
    access: AccessRules
    actions: Actions | None = None
    pages: PipelinePages | None = None

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer a request; a failure is an answer, too."""
        try:
            response = self.answer(PageRequest.of(environ))
        except ValueError as error:
            response = self._page(None, "message.html", 400, title="Not understood", message=str(error))
        except Exception as error:
            Log().warning(f"dashboard: {environ.get('PATH_INFO', '')!r} failed: {type(error).__name__}: {error}")
            response = self._page(
                None, "message.html", 500, title="This page failed", message="The log has the reason."
            )
        body = response.send(start_response)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else body

    def answer(self, request: PageRequest) -> PageResponse:
        """Return the answer to a request."""
        if not self.access.knows_host(request.host):
            hint = "Open it by its address, or start calve dashboard with --name and this name."
            return self._page(None, "message.html", 403, title="Unknown host name", message=hint)
        name = request.path.removeprefix("/static/")
        if name in _STATIC and request.path.startswith("/static/"):
            return PageResponse(200, files("calve.dashboard").joinpath("static", name).read_bytes(), _STATIC[name])
        if request.path == "/healthz":
            return PageResponse(200, b'{"status": "ok"}\n', "application/json")
        session = self.access.session(request.cookies)
        try:
            return self._post(request, session) if request.method == "POST" else self._get(request, session)
        except CalveError as error:
            return self._page(session, "message.html", 409, title="That did not work", message=harmless(str(error)))

    def _get(self, request: PageRequest, session: Session | None) -> PageResponse:
        if request.method not in ("GET", "HEAD"):
            return self._page(session, "message.html", 405, title="Not possible", message="Only GET and POST are.")
        is_first = request.path == "/login" or request.path.startswith(FIRST)
        if is_first or (session is None and not self.access.is_open):
            return self._admit(request)
        match request.path.strip("/").split("/"):
            case [""]:
                return self._overview(session)
            case ["actions"] if self.actions:
                return self._page(session, "actions.html", jobs=self.actions.jobs)
            case ["pipelines", name]:
                return self._pipeline(session, name)
            case ["pipelines", name, "rejects"]:
                return self._rejects(session, name, request)
            case ["pipelines", name, "table"]:
                return self._table(session, name, request.query.get("name", ""))
            case ["pipelines", name, "definition"]:
                return self._text(session, name, "definition.html", lambda: {"yaml": self._of.definition(name)})
            case ["pipelines", name, "log"]:
                return self._text(session, name, "log.html", lambda: {"lines": self._of.log(name)})
        return self._missing(session)

    def _admit(self, request: PageRequest) -> PageResponse:
        """Begin a session by the first address, or ask for what it needs."""
        if session := self.access.admit(request.path):
            return redirect("/", _COOKIE.format(session.token))
        if self.access.ticket:
            hint = "Open the address that the dashboard has logged; it begins a session of 12 hours."
            return self._page(None, "message.html", 401, title="Another address is needed", message=hint)
        return self._page(None, "login.html", 200 if request.path == "/login" else 401, wrong="")

    def _post(self, request: PageRequest, session: Session | None) -> PageResponse:
        if not self.access.is_same_site(request.host, request.origin, request.fetch_site):
            return self._page(None, "message.html", 403, title="Refused", message="The form is from another site.")
        if request.path == "/login":
            return self._log_in(request)
        if session is None or not _equal(request.form.get("form", ""), session.form):
            return self._page(None, "message.html", 403, title="Refused", message="Log in, and send the form again.")
        if request.path == "/logout":
            self.access.log_out(session)
            return redirect("/login", _COOKIE.format("") + "; Max-Age=0")
        return self._act(request, session)

    def _log_in(self, request: PageRequest) -> PageResponse:
        if self.access.must_wait():
            return self._page(None, "login.html", 429, wrong="Too many wrong passwords. Wait a minute.")
        session = self.access.log_in(request.form.get("password", ""))
        if session is None:
            return self._page(None, "login.html", 403, wrong="The password is wrong.")
        return redirect("/", _COOKIE.format(session.token))

    def _act(self, request: PageRequest, session: Session) -> PageResponse:
        """Run an action on a pipeline that the state has, or on one of its tables."""
        match request.path.strip("/").split("/"):
            case ["pipelines", name, action] if self.actions and (report := self._report(name)):
                if self._run(self.actions, action, report, request.form):
                    return redirect("/actions")
        return self._missing(session)

    def _run(self, actions: Actions, action: str, report: PipelineReport, form: Mapping[str, str]) -> bool:
        """Start an action; return whether there is such an action, pipeline and table."""
        name, table = report.pipeline, form.get("table", "")
        match action:
            case "pause":
                actions.pause(name)
            case "resume":
                actions.resume(name)
            case "replay":
                actions.replay(name, form.get("code", ""), table)
            case "maintain" if table in report.tables:
                actions.maintain(table)
            case "forget" if table in report.tables:
                actions.forget(name, table)
            case _:
                return False
        return True

    def _overview(self, session: Session | None) -> PageResponse:
        all_reports, broken = read_all(self.state)
        reports = [self._pending.complete(report) for report in all_reports]
        lines = sorted((overview(report, self.history.of(report.pipeline)) for report in reports), key=by_level)
        problems_of = {report.pipeline: problems(report, self.history.of(report.pipeline)) for report in reports}
        problems_of |= {name: [unreadable(error)] for name, error in broken.items()}
        return self._page(
            session,
            "overview.html",
            pipelines=lines,
            problems=by_problem(problems_of),
            is_empty=not (reports or broken),
        )

    def _pipeline(self, session: Session | None, name: str) -> PageResponse:
        report = self._report(name)
        if report is None:
            return self._missing(session)
        samples, replay, views = self.history.of(name), read_replay(self.state, name), tables(report)
        now, line = time.time(), overview(report, samples)
        return self._page(
            session,
            "pipeline.html",
            report=report,
            line=line,
            problems=problems(report, samples),
            charts=charts(samples, now, line.rate, line.lag, line.freshness),
            flow=self._of.flow(report),
            table_charts=self._of.charts(report, now),
            tables=views[:_MOST_TABLES],
            more_tables=many(len(views) - _MOST_TABLES, "more table") if len(views) > _MOST_TABLES else "",
            commits=list(reversed(report.commits)),
            replayed=many(replay.events, "event") if replay and replay.events else "",
        )

    def _table(self, session: Session | None, name: str, table: str) -> PageResponse:
        report = self._report(name)
        if report is None or table not in report.tables:
            return self._missing(session)
        content = self._of.table(report, table, time.time())
        return self._page(session, "table.html", report=report, **content)

    def _text(
        self, session: Session | None, name: str, template: str, content: Callable[[], dict[str, Any]]
    ) -> PageResponse:
        """Return a page of a pipeline that needs nothing but its name."""
        report = self._report(name)
        return self._page(session, template, report=report, **content()) if report else self._missing(session)

    def _rejects(self, session: Session | None, name: str, request: PageRequest) -> PageResponse:
        report = self._report(name)
        if report is None:
            return self._missing(session)
        code, table = request.query.get("code", ""), request.query.get("table", "")
        counts = [(name, kind, count) for name, codes in report.pending.items() for kind, count in codes.items()]
        return self._page(
            session,
            "rejects.html",
            report=report,
            code=code,
            table=table,
            counts=sorted(counts, key=lambda row: -row[2]),
            found=newest(self.state, name, code, table),
        )

    def _report(self, name: str) -> PipelineReport | None:
        """Return the report of a pipeline; None for a name that is no pipeline's, e.g. `..`."""
        is_name = name and not name.startswith((".", "_")) and "/" not in name and "\0" not in name
        report = read_report(self.state, name) if is_name else None
        return self._pending.complete(report) if report else None

    def _missing(self, session: Session | None) -> PageResponse:
        return self._page(session, "message.html", 404, title="Not here", message="There is no such page or pipeline.")

    def _page(self, session: Session | None, template: str, status: int = 200, **content: Any) -> PageResponse:
        text = self._templates.get_template(template).render(
            session=session,
            acts=self.actions is not None and session is not None,
            has_password=self.access.password != "",
            state=harmless(self.state),
            width=WIDTH,
            height=HEIGHT,
            **content,
        )
        return PageResponse(status, text.encode(errors="replace"))

    @cached_property
    def _pending(self) -> PendingInState:
        return PendingInState(self.state)

    @cached_property
    def _of(self) -> PipelinePages:
        return self.pages or PipelinePages(self.state, self.history)

    @cached_property
    def _templates(self) -> jinja2.Environment:
        environment = jinja2.Environment(
            loader=jinja2.PackageLoader("calve.dashboard"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.filters |= {"ago": ago, "harmless": harmless, "part": lambda text: quote(text, safe="")}
        return environment


def _equal(first: str, other: str) -> bool:
    return hmac.compare_digest(first.encode(), other.encode())
