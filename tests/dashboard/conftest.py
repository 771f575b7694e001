from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from calve.dashboard.access import AccessRules
from calve.dashboard.actions import Actions
from calve.dashboard.app import App
from calve.dashboard.history import SampleHistory
from calve.dashboard.server import history_file
from calve.dashboard.web import PageResponse
from dashboard.states import ALL

PASSWORD = "correct horse"


class Page(HTMLParser):
    """A parsed page: its elements with their attributes, its text, and what is left open or closed twice."""

    VOID = ("meta", "link", "input", "br")

    def __init__(self, answer: PageResponse) -> None:
        super().__init__()
        self.answer = answer
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.unbalanced: list[str] = []
        self._open: list[str] = []
        self.feed(answer.body.decode())
        self.close()
        self.unbalanced += self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._open and self._open[-1] == tag:
            self._open.pop()
        else:
            self.unbalanced.append(f"/{tag}")

    def handle_data(self, data: str) -> None:
        self.text += re.sub(r"\s+", " ", data)

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]


class Visitor:
    """A browser without scripts: keeps its cookie, and sends the proof of the last page's forms."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.cookies = ""
        self.proof = ""

    def get(self, path: str, **headers: str) -> Page:
        page = Page(self._ask("GET", path, b"", headers))
        proofs = [one["value"] for one in page.all("input") if one.get("name") == "form"]
        self.proof = proofs[0] if proofs else self.proof
        return page

    def post(self, path: str, headers: dict[str, str] | None = None, **form: str) -> PageResponse:
        answer = self._ask("POST", path, urlencode({"form": self.proof, **form}).encode(), headers or {})
        self.cookies = answer.headers.get("Set-Cookie", self.cookies).partition(";")[0]
        return answer

    def log_in(self, password: str = PASSWORD) -> PageResponse:
        return self.post("/login", password=password)

    def _ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> PageResponse:
        path, _, query = path.partition("?")
        environ: dict[str, Any] = {
            "REQUEST_METHOD": method,
            "PATH_INFO": path.encode().decode("latin-1"),
            "QUERY_STRING": query,
            "HTTP_HOST": "127.0.0.1:9601",
            "HTTP_COOKIE": self.cookies,
            "CONTENT_LENGTH": str(len(body)),
            "wsgi.input": io.BytesIO(body),
            **headers,
        }
        told: list[Any] = []
        content = b"".join(self.app(environ, lambda *args: told.extend(args)))
        return PageResponse(int(told[0].split()[0]), content, headers=dict(told[1]))


Visit = Callable[..., Visitor]


@pytest.fixture
def visit(tmp_path: Path) -> Iterator[Visit]:
    """Makes a state, and opens its dashboard; with a program, actions are allowed."""
    opened: list[App] = []

    def made(name: str, program: list[str] | None = None, access: AccessRules | None = None) -> Visitor:
        state = tmp_path / "calve-state"
        ALL[name](state)
        actions = Actions(str(state), tmp_path / "orders.yaml", program) if program else None
        given = access or AccessRules(PASSWORD if actions else "")
        opened.append(App(str(state), SampleHistory(history_file(str(state))), given, actions))
        return Visitor(opened[-1])

    yield made
    for app in opened:
        if app.actions:
            app.actions.close()
