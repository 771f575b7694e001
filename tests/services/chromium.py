"""A headless Chromium, driven through its DevTools protocol over pipes; without one on this machine tests are skipped.

The browser is not downloaded: install one (Debian: `apt install chromium`), or name it with `CALVE_CHROMIUM`.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from services import packages

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_ANSWER_SECONDS = 120.0
_AXE = "axe-playwright-python==0.1.8"
"""A package of PyPI that contains axe-core."""


def find() -> str | None:
    """Return the browser of this machine; None without one."""
    named = os.environ.get("CALVE_CHROMIUM")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


def axe() -> Path | None:
    """Return the script of axe-core, downloaded once; None where it cannot be downloaded."""
    folder = packages.install("axe-0.1.8", "--no-deps", _AXE)
    return next(folder.rglob("axe.min.js"), None) if folder else None


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """Start the browser of this machine with one empty page, and end it."""
    program = find()
    assert program is not None
    with tempfile.TemporaryDirectory(prefix="calve-chromium-") as profile:
        to_browser, ours = map(_high, os.pipe())
        from_browser, theirs = map(_high, os.pipe())

        def connect() -> None:
            os.dup2(to_browser, 3)
            os.dup2(theirs, 4)

        process = subprocess.Popen(
            [
                program,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-background-networking",
                "--hide-scrollbars",
                "--no-first-run",
                "--remote-debugging-pipe",
                f"--user-data-dir={profile}",
                "about:blank",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=connect,
            start_new_session=True,
        )
        os.close(to_browser)
        os.close(theirs)
        try:
            yield Browser(ours, from_browser)
        finally:
            os.close(ours)  # the browser ends with its pipe
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            os.close(from_browser)


def _high(number: int) -> int:
    """Return a file descriptor that the browser's own, 3 and 4, do not replace."""
    high = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(number)
    return high


class Browser:
    """One page of a browser.

    Args:
        send: The pipe to the browser.
        receive: The pipe from it.

    Attributes:
        problems: Exceptions and errors in the page's console.
    """

    def __init__(self, send: int, receive: int) -> None:
        self._send, self._receive = send, receive
        self._numbers = itertools.count(1)
        self._answers: dict[int, dict[str, Any]] = {}
        self._arrived = threading.Condition()
        self._session = ""
        self.problems: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()
        targets = self._call("Target.getTargets")["targetInfos"]
        page = next(one["targetId"] for one in targets if one["type"] == "page")
        self._session = self._call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")

    def open(self, url: str) -> None:
        """Open a page and wait until it is loaded."""
        self._call("Page.navigate", url=url)
        self.until(lambda: self.evaluate("document.readyState") == "complete")

    def look(self, width: int, height: int, dark: bool = False) -> None:
        """Set the size of the window, and the colour scheme."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])

    def evaluate(self, script: str) -> Any:
        """Return the value of an expression, also of a promise."""
        answer = self._call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise AssertionError(json.dumps(answer["exceptionDetails"])[:2000])
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """Press a key, e.g. `Tab`."""
        codes = {"Tab": 9, "Enter": 13}
        about = {"key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
        for kind in ("keyDown", "keyUp"):
            self._call("Input.dispatchKeyEvent", type=kind, **about, **({"text": "\r"} if key == "Enter" else {}))

    def submit(self, selector: str) -> None:
        """Press a button and wait for the next page."""
        self.evaluate("window.before = true")
        self.evaluate(f"document.querySelector({json.dumps(selector)}).click()")
        self.until(lambda: self.evaluate("window.before !== true && document.readyState == 'complete'"))

    def picture(self, file: Path) -> None:
        """Save the whole page as PNG."""
        data = self._call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        file.write_bytes(base64.b64decode(data))

    def findings(self, script: Path) -> list[str]:
        """Return what axe-core finds wrong on the page."""
        if self.evaluate("typeof axe") == "undefined":
            self._call("Runtime.evaluate", expression=script.read_text())
        found = self.evaluate("axe.run().then(done => done.violations)")
        return [f"{one['id']}: {node['html'][:200]} {node['failureSummary']}" for one in found for node in one["nodes"]]

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition."""
        deadline = time.monotonic() + _ANSWER_SECONDS
        while True:
            with contextlib.suppress(AssertionError, KeyError):  # between two pages
                if condition():
                    return
            assert time.monotonic() < deadline, "the page did not change"
            time.sleep(0.02)

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._send, json.dumps(message).encode() + b"\0")
        with self._arrived:
            assert self._arrived.wait_for(lambda: number in self._answers, _ANSWER_SECONDS), f"{method}: no answer"
            answer = self._answers.pop(number)
        assert "error" not in answer, answer
        return dict(answer["result"])

    def _read(self) -> None:
        rest = b""
        while chunk := os.read(self._receive, 1 << 16):
            *messages, rest = (rest + chunk).split(b"\0")
            for message in map(json.loads, messages):
                self._take(message)

    def _take(self, message: dict[str, Any]) -> None:
        if "id" in message:
            with self._arrived:
                self._answers[message["id"]] = message
                self._arrived.notify_all()
        elif message.get("method") == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(message["params"])[:2000])
        elif message.get("method") == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
            self.problems.append(json.dumps(message["params"]["entry"])[:2000])
