"""A real process, real signals; the pipelines are a few lines that obey `watch.stop`."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kit.running import PATIENCE_SECONDS

PROGRAM = """
import signal, sys, threading
from calve.cli.signals import run_until_asked
from calve.observe.log import configure
from calve.observe.watch import Watch

def work():
    begins, folder = sys.argv[1] != "starting", sys.argv[2]
    if begins:
        watch.pipeline("orders", folder)
    threading.Thread(target=threading.Event().wait).start() if not begins else None  # what never ends by itself
    print("ready", flush=True)
    if sys.argv[1] == "another thread":
        sys.stdin.readline()
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    watch.stop.wait()
    print("stopping", flush=True)
    sys.stdin.read()
    return 0

configure()
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests themselves may run by nohup, which ignores it
with Watch() as watch:
    code = run_until_asked(work, watch, lambda: None)
sys.exit(code)
"""


@contextmanager
def running(begun: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", PROGRAM, begun, str(folder)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    return process.stderr.readline()


def test_the_first_signal_drains_and_ends_well(tmp_path: Path) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        with running("begun", tmp_path) as process:
            process.send_signal(number)
            assert "stopping: committing what was read" in said(process)
            output, _ = process.communicate("", timeout=PATIENCE_SECONDS)
            assert (output, process.returncode) == ("stopping\n", 0)


def test_a_signal_that_another_thread_receives_is_noticed(tmp_path: Path) -> None:
    with running("another thread", tmp_path) as process:
        output, _ = process.communicate("go\n", timeout=PATIENCE_SECONDS)
        assert (output, process.returncode) == ("stopping\n", 0)


def test_the_second_signal_says_how_to_force_it(tmp_path: Path) -> None:
    with running("begun", tmp_path) as process:
        process.send_signal(signal.SIGINT)
        assert "stopping: " in said(process)
        process.send_signal(signal.SIGINT)
        assert f"kill -9 {process.pid}" in said(process)
        process.communicate("", timeout=PATIENCE_SECONDS)
        assert process.returncode == 0


def test_while_nothing_has_begun_a_signal_ends_it_at_once_and_quietly(tmp_path: Path) -> None:
    with running("starting", tmp_path) as process:
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=PATIENCE_SECONDS)
        assert (output, errors, process.returncode) == ("", "", 130)
