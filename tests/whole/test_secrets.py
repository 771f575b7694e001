"""A canary in every place where a secret can stand: none comes out, whether a pipeline works, fails or is refused."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import subprocess
import sys
import threading
import time
import types
import typing
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from calve.pipeline.plugins import PLUGINS
from calve.settings.option import declared
from kit.running import LITTLE, Calve
from services.process import free_ports
from whole.canaries import MARK, Canaries, pipelines

pytestmark = [pytest.mark.spark]

FOUND = re.compile(rf"{MARK}[0-9]+x".encode())
GIVE_UP = ("--give-up-after", "2s")
KEPT_SECONDS = 45
AT_ONCE = 4


WRONG = """
refused:
  source:
    kafka:
      bootstrap_servers: ["127.0.0.1:1"]
      topics: [{{name: t, group_id: g}}]
      authentication: {{sasl: {{plaintext: {{username: u, password: [{0}], passwrd: {1}}}}}}}
      client_properties: {{sasl.password: [{2}]}}
  sink:
    - iceberg: {{table_identifier: a.b, catalog: {{type: rest, uri: "ftp://u:{3}@h", token: [{4}]}}}}
    - opensearch: {{hosts: ["http://u:{5}@h:9200"], index: i, password: {{a: {6}}}, socket_timeout: "${{env:AS_TIME}}"}}
    - opensearch: {{hosts: ["${{file:{7}}}"], index: i, max_retries: "${{env:AS_TIME}}"}}
"""


def _secrets(settings: type, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the paths of the options below a settings class that are declared secret, each with its class and name."""
    for one in declared(settings).values():
        here = f"{path}.{one.name}"
        if one.option.secret:
            yield here, f"{settings.__name__}.{one.name}"
        for inner in _classes(one.type):
            yield from _secrets(inner, here)


def _classes(kind: Any) -> Iterator[type]:
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        yield kind
    elif typing.get_origin(kind) in (list, dict, types.UnionType, typing.Union):
        for each in typing.get_args(kind):
            yield from _classes(each)


def _given(tree: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of all keys of a configuration, those of lists without their number."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield f"{path}.{key}"
            yield from _given(value, f"{path}.{key}")
    elif isinstance(tree, list):
        for each in tree:
            yield from _given(each, path)


def test_every_option_that_is_declared_secret_has_a_canary(tmp_path: Path) -> None:
    given: set[str] = set()
    for pipeline in pipelines(Canaries(tmp_path), 1, 2).values():
        given |= set(_given(pipeline["source"])) | {one for sink in pipeline["sink"] for one in _given(sink)}
    secrets = [
        (f".{name}{path}", option)
        for kinds in (PLUGINS.sources, PLUGINS.sinks)
        for name, settings in kinds.items()
        for path, option in _secrets(settings)
    ]
    assert len(secrets) > 15
    assert {option for _, option in secrets} == {option for path, option in secrets if path in given}


class Watch:
    """Reads the command lines of all processes below one, again and again."""

    def __init__(self) -> None:
        self.seen: set[bytes] = set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        own = os.getpid()
        while not self._ended.wait(0.2):
            for process in Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError):
                    if int(process.name) != own:
                        self.seen.add((process / "cmdline").read_bytes())


@pytest.mark.crash
def test_no_secret_comes_out_of_pipelines_that_work_fail_or_are_refused(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    canaries = Canaries(tmp_path)
    port, nobody, metrics, dashboard = free_ports(4)
    job = Calve(tmp_path / "job", json.dumps(pipelines(canaries, port, nobody)))
    (job.folder / "in").mkdir()
    (job.folder / "in" / "1.ndjson").write_text('{"id": 1}\n')
    for name, value in canaries.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("CALVE_DASHBOARD_PASSWORD", canaries.new())
    said: dict[str, bytes] = {}
    with Watch() as watch:
        try:
            said |= _running(job, port, metrics, dashboard)
        finally:
            job.end()
        said |= _commands(job, canaries)
    said["log"] = job.log.read_bytes()
    for path in [*job.folder.rglob("*"), tmp_path / "stored.db"]:
        if path.is_file() and path.name not in ("pipelines.yaml", "wrong.yaml"):
            said[str(path)] = path.read_bytes()
    said["processes"] = b"\n".join(watch.seen)
    for name in ("works", "rest", "search", "postgres", "certificate"):
        assert f" {name} ".encode() in said["log"] or f'"{name}"'.encode() in said["log"], name
    folders = [job.folder / name for name in ("calve-state", "letters")]
    events = [path for folder in folders for path in (folder, *folder.rglob("*"))]
    assert [path for path in events if path.stat().st_mode & 0o077] == [], "only this user reads events"
    assert any(b"no number" in text for path, text in said.items() if "letters" in path), "a dead letter"
    shown = {place: sorted(set(FOUND.findall(text))) for place, text in said.items() if FOUND.search(text)}
    assert shown == {}


def _running(job: Calve, port: int, metrics: int, dashboard: int) -> dict[str, bytes]:
    """Run all pipelines, with events for the one that works, and read what they serve."""
    said = {}
    with job.log.open("ab") as log:
        command = job.command("run", "pipelines.yaml", "--metrics-port", str(metrics), "--json", "--debug", *GIVE_UP)
        job.process = subprocess.Popen(
            [*command, "--master", "local[2]", *LITTLE, "--dashboard", "--dashboard-port", str(dashboard)],
            cwd=job.folder,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    job.until(lambda: _post(port, b'[{"id": 1}, {"id": "no number"}]', "wrong") == 401, "it listens")
    works = json.loads((job.folder / "pipelines.yaml").read_text())["works"]
    password = works["source"]["http"]["authentication"]["http_basic"]["password"]
    assert _post(port, b'[{"id": 1}, {"id": "no number"}]', password) == 200
    job.until(lambda: job.status("works").get("rejects"), "a dead letter")
    ends = time.monotonic() + KEPT_SECONDS
    job.until(lambda: all(_has_failed(job, name) for name in ("rest", "postgres")) or time.monotonic() > ends, "errors")
    for path in ("metrics", "healthz", "readyz"):
        said[path] = _get(f"http://127.0.0.1:{metrics}/{path}")
    said |= _pages(f"http://127.0.0.1:{dashboard}")
    job.stop()
    return said


def _pages(address: str) -> dict[str, bytes]:
    """Read the pages of the dashboard as a browser that has logged in."""
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    password = urlencode({"password": os.environ["CALVE_DASHBOARD_PASSWORD"]}).encode()
    browser.open(f"{address}/login", password, timeout=20).close()
    paths = ["", "pipelines/works/rejects", "pipelines/works/table?name=a.b"]
    paths += [
        f"pipelines/{name}{page}" for name in ("works", "rest", "postgres") for page in ("", "/definition", "/log")
    ]
    pages = {}
    for path in paths:
        try:
            with browser.open(f"{address}/{path}", timeout=30) as answer:
                pages[f"dashboard/{path}"] = answer.read()
        except urllib.error.HTTPError as error:
            pages[f"dashboard/{path}"] = error.read()
    assert b"http_basic" in pages["dashboard/pipelines/works/definition"]
    assert b"1 reject" in pages["dashboard/pipelines/works/log"]
    return pages


def _has_failed(job: Calve, name: str) -> bool:
    status = job.status(name)
    return bool(status.get("errors")) or any((one or {}).get("error") for one in status.get("tables", {}).values())


def _commands(job: Calve, canaries: Canaries) -> dict[str, bytes]:
    """Run the commands that read the configuration or the state."""
    (job.folder / "events.ndjson").write_text('{"id": 1}\n')
    secret = job.folder.parent / "as-host"
    secret.write_text(canaries.new())
    words = [canaries.plain() for _ in range(7)]
    (job.folder / "wrong.yaml").write_text(WRONG.format(*words, secret))
    commands = [
        ("validate", "wrong.yaml"),
        ("run", "wrong.yaml", "--once"),
        ("validate", "pipelines.yaml", "--connect", "--debug"),
        ("try", "pipelines.yaml", "events.ndjson", "--pipeline", "works"),
        ("run", "pipelines.yaml", "--once", "--metrics-port", "0", "--debug", *LITTLE, *GIVE_UP),
        ("status",),
        ("status", "--json"),
        ("dlq", "show", "--pipeline", "works"),
    ]
    environment = {**os.environ, "AS_TIME": canaries.new()}

    def run(command: tuple[str, ...]) -> bytes:
        line = [sys.executable, "-m", "calve", *command]
        done = subprocess.run(line, cwd=job.folder, env=environment, capture_output=True, check=False, timeout=300)
        return done.stdout + done.stderr

    with ThreadPoolExecutor(AT_ONCE) as pool:  # they wait for servers that do not answer most of the time
        said = {" ".join(one): text for one, text in zip(commands, pool.map(run, commands), strict=True)}
    assert not [line for line, text in said.items() if b"No such option" in text]
    assert b"refused" in said["validate wrong.yaml"]
    return said


def _post(port: int, body: bytes, password: str) -> int:
    import base64

    login = base64.b64encode(f"u:{password}".encode()).decode()
    headers = {"Content-Type": "application/json", "Authorization": f"Basic {login}"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/log/ingest", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def _get(address: str) -> bytes:
    try:
        with urllib.request.urlopen(address, timeout=20) as answer:
            found: bytes = answer.read()
            return found
    except urllib.error.HTTPError as error:
        return error.read()
