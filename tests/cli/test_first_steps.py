"""The page of first steps, pasted as it is printed, at once: each command says what stands below it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from kit.documents import paste, runnable, yamls
from kit.running import PATIENCE_SECONDS
from services.process import free_ports


def without_times(text: str) -> str:
    """Replace what differs from run to run, and the blanks that align columns."""
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)
    text = re.sub(r"\b\d+ s\b", "N s", text)
    text = re.sub(r"\b\d{13}\b", "MILLIS", text)
    text = re.sub(r" +", " ", text).strip()
    of_a_second_batch = r"( set to NULL) valid through$|( shop\.\w+ 1 1 N s ago .* -) [-\d][-\d: ]*Z?$"
    return re.sub(of_a_second_batch, r"\1\2", text, flags=re.MULTILINE)


@pytest.mark.spark
def test_the_first_steps_say_what_the_page_says(tmp_path: Path) -> None:
    [port] = free_ports(1)
    [yaml], (*console, python) = yamls("docs/first-steps.md"), runnable("docs/first-steps.md")
    (tmp_path / "orders.yaml").write_text(yaml.replace("http: {}", f"http: {{port: {port}}}"))
    start, send, results = (text.replace("localhost:2021", f"localhost:{port}") for text in console)
    validate, run = start.split("$ calve run", 1)
    assert paste(validate, tmp_path) == validate
    command = [sys.executable, "-m", "calve", "run", *run.split(), "--metrics-port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE) as process:
        try:
            wait_for(port)
            send = send.replace("curl ", "curl -s ")
            assert without_times(paste(send, tmp_path)) == without_times(send)
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_SECONDS) == 0
        finally:
            process.kill()
    assert without_times(paste(results, tmp_path)) == without_times(results)
    read = subprocess.run([sys.executable, "-c", python], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "[[9.5]]" in read.stdout.replace(" ", "").replace("\n", "")
    pages_of_readers_run(tmp_path)


def pages_of_readers_run(folder: Path) -> None:
    """Run what the pages about reading tables and about monitoring show; Spark's part is in `test_pages`."""
    commands, pyiceberg, duckdb, _ = runnable("docs/read-tables.md")
    [monitoring] = runnable("docs/monitoring.md")
    paste(commands + monitoring, folder)
    for program in (pyiceberg, duckdb):
        subprocess.run([sys.executable, "-c", program], cwd=folder, check=True)


def wait_for(port: int) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
            return
        time.sleep(0.1)
    raise AssertionError("the pipeline does not listen")
