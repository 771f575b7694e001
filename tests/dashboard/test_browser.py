"""The pages in a real browser: what axe finds, the keyboard, a phone, dark mode, live updates, and every action."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from calve.dashboard.access import AccessRules
from calve.dashboard.actions import Actions
from calve.dashboard.app import App
from calve.dashboard.history import SampleHistory
from calve.dashboard.server import Dashboard, history_file
from dashboard.conftest import PASSWORD
from dashboard.states import ALL, lagging
from services import chromium

pytestmark = [
    pytest.mark.services,
    pytest.mark.skipif(chromium.find() is None, reason="no Chromium on this machine; name one with CALVE_CHROMIUM"),
]

ECHO = [sys.executable, "-c", "import sys; print(sys.argv[1:])"]
ORDERS = "pipelines/orders"
PATHS = ("", ORDERS, *(f"{ORDERS}/{page}" for page in ("rejects", "definition", "log", "table?name=shop.orders")))


@pytest.fixture(scope="module")
def browser() -> Iterator[chromium.Browser]:
    with chromium.browser() as found:
        yield found


@pytest.fixture(scope="module")
def axe() -> Path:
    found = chromium.axe()
    if found is None:
        pytest.skip("axe-core cannot be downloaded")
    return found


@pytest.fixture
def served(request: pytest.FixtureRequest, tmp_path: Path, browser: chromium.Browser) -> Iterator[str]:
    """The address of a dashboard of the state that the parameter names; actions need the password."""
    state = tmp_path / "calve-state"
    ALL[request.param](state)
    actions = Actions(str(state), tmp_path / "orders.yaml", ECHO)
    app = App(str(state), SampleHistory(history_file(str(state))), AccessRules(PASSWORD), actions)
    with Dashboard(app, 0) as dashboard:
        browser.look(1100, 800)
        browser.problems.clear()
        browser.open(dashboard.url + "login")
        browser.evaluate(f"document.querySelector('#password').value = {json.dumps(PASSWORD)}")
        browser.submit("main button")
        yield dashboard.url


WIDE, TABLET, PHONE = (1100, 800), (760, 800), (390, 800)
LOOKS = [
    ("healthy", (*WIDE, False)),
    ("healthy", (*PHONE, True)),
    ("rejecting", (*TABLET, False)),
    ("lagging", (*PHONE, False)),
    ("failing", (*WIDE, True)),
    ("empty", (*WIDE, False)),
    ("hostile", (*PHONE, True)),
]


@pytest.mark.parametrize(("served", "look"), LOOKS, indirect=["served"])
def test_axe_finds_nothing_on_any_page_light_or_dark_wide_or_narrow(
    served: str, look: tuple[int, int, bool], browser: chromium.Browser, axe: Path
) -> None:
    found = {}
    for path in (*PATHS, "actions", "nothing"):
        if path != "nothing":
            browser.open(served + path)
        browser.look(*look)
        found[path] = browser.findings(axe)
        assert not browser.evaluate("document.documentElement.scrollWidth > innerWidth"), f"{path} is too wide"
    assert {key: one for key, one in found.items() if one} == {}
    assert [one for one in browser.problems if "404" not in one] == []


@pytest.mark.parametrize("served", ["hostile"], indirect=True)
def test_hostile_names_and_events_run_nothing(served: str, browser: chromium.Browser) -> None:
    for path in PATHS:
        browser.open(served + path)
        assert browser.evaluate("document.scripts.length") == 1
        assert "<script>alert(1)</script>" in browser.evaluate("document.body.innerText") or path == ""
    assert browser.problems == []


@pytest.mark.parametrize("served", ["failing"], indirect=True)
@pytest.mark.parametrize("button", ["/pause", "/replay", "/maintain", "/forget"])
def test_each_button_runs_its_command(served: str, browser: chromium.Browser, button: str) -> None:
    browser.open(served + "pipelines/orders")
    browser.submit(f"form[action$='{button}'] button")
    assert browser.evaluate("location.pathname") == "/actions"
    browser.until(lambda: "orders" in browser.evaluate("document.querySelector('pre').innerText") or _reload(browser))
    assert button[1:] in browser.evaluate("document.querySelector('pre').innerText")


def _reload(browser: chromium.Browser) -> bool:
    browser.open(browser.evaluate("location.href"))
    return False


@pytest.mark.parametrize("served", ["failing"], indirect=True)
def test_the_keyboard_reaches_the_content_and_the_actions(served: str, browser: chromium.Browser) -> None:
    browser.open(served + "pipelines/orders")
    browser.press("Tab")
    assert browser.evaluate("document.activeElement.innerText") == "Skip to the content"
    assert browser.evaluate("document.activeElement.getBoundingClientRect().height") > 10
    browser.press("Enter")
    browser.until(lambda: browser.evaluate("document.activeElement.id") == "main")
    reached: list[str] = []
    while "Pause" not in reached and len(reached) < 8:
        browser.press("Tab")
        reached.append(browser.evaluate("document.activeElement.innerText"))
    assert reached[0] == "Overview"  # the pages of the pipeline come first
    assert reached[-1] == "Pause"


@pytest.mark.parametrize("served", ["healthy"], indirect=True)
def test_the_page_follows_the_state_until_it_is_told_to_stop(
    served: str, browser: chromium.Browser, tmp_path: Path
) -> None:
    browser.open(served)
    browser.evaluate("window.same = true")
    lagging(tmp_path / "calve-state")
    browser.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    browser.until(lambda: "4,812,000 rows" in browser.evaluate("document.body.innerText"))
    assert browser.evaluate("window.same") is True
    browser.evaluate("document.querySelector('#updates').click()")
    assert browser.evaluate("document.querySelector('#updates').getAttribute('aria-pressed')") == "true"
