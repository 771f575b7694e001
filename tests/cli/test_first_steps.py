"""The page of first steps, pasted as it is printed, at once: each command says what stands below it."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from kit.running import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/first-steps.md").read_text()
ALONE = re.compile(
    r"calve (status|tables|sql|ops|doctor|dlq (list|show)|((validate|dlq replay) orders\.yaml|(show|changes) shop\.orders"
    r"|maintain shop\.orders --dry-run))\b"
)
MORE = re.compile(r"s3://|--(connect|conf|catalog|from|branch|code NOT_COERCIBLE --table)\b")
"""Commands that need a server, or something that these tables lack."""
BLOCKS = re.findall(r"^```(yaml|console|python)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
CONSOLE = [text for kind, text in BLOCKS if kind == "console"]


def of_kind(kind: str) -> str:
    [text] = [text for each, text in BLOCKS if each == kind]
    return text


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def without_times(text: str) -> str:
    """Replace what differs from run to run, and the blanks that align columns."""
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)
    text = re.sub(r"\b\d+ s\b", "N s", text)
    text = re.sub(r"\b\d{13}\b", "MILLIS", text)
    return re.sub(r" +", " ", text).strip()


@pytest.mark.spark
def test_the_first_steps_say_what_the_page_says(tmp_path: Path) -> None:
    port, programs = free_port(), str(Path(sys.executable).parent)
    environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"}

    def said(block: str) -> str:
        """Paste the commands of a block into a shell, all at once; return the block as it would look there."""
        commands = [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]
        script = "".join(f"printf '%s\\n' {shell_text('$ ' + command)}\n{command}\n" for command in commands)
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        return done.stdout

    (tmp_path / "orders.yaml").write_text(of_kind("yaml").replace("http: {}", f"http: {{port: {port}}}"))
    start, send, results = (text.replace("localhost:2021", f"localhost:{port}") for text in CONSOLE)
    validate, run = start.split("$ calve run", 1)
    assert said(validate) == validate
    command = [sys.executable, "-m", "calve", "run", *run.split(), "--metrics-port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE) as process:
        try:
            wait_for(port)
            assert without_times(said(send.replace("curl ", "curl -s "))) == without_times(
                send.replace("curl ", "curl -s ")
            )
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_SECONDS) == 0
        finally:
            process.kill()
    assert without_times(said(results)) == without_times(results)
    python = subprocess.run(
        [sys.executable, "-c", of_kind("python")], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    pages_of_readers_run(tmp_path, environment)
    assert "[[9.5]]" in python.stdout.replace(" ", "").replace("\n", "")


def pages_of_readers_run(folder: Path, environment: dict[str, str]) -> None:
    """Run what the page about reading tables shows for PyIceberg and DuckDB, and each command that these tables do."""
    text = (ROOT / "docs/read-tables.md").read_text()
    programs = [
        [sys.executable, "-c", program] for program in re.findall(r"^```python\n(.*?)^```$", text, re.M | re.DOTALL)
    ]
    commands = [["bash", "-c", line] for line in commands_for_these_tables()]
    assert (len(programs), len(commands)) == (2, 19)
    for command in programs + commands:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (command, done.stderr)


def commands_for_these_tables() -> list[str]:
    """Return the commands in the blocks of all pages that need no more than the tables and the state of this page."""
    pages = [(ROOT / "README.md"), *(ROOT / "docs").glob("*.md")]
    blocks = [
        block
        for page in pages
        for block in re.findall(r"^```(?:sh|console|)\n(.*?)^```$", page.read_text(), re.M | re.DOTALL)
    ]
    lines = {
        re.split(r"  +#|\| jq", line.removeprefix("$ "))[0].strip() for block in blocks for line in block.splitlines()
    }
    return sorted(line for line in lines if ALONE.match(line) and not MORE.search(line))


def shell_text(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def wait_for(port: int) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
            return
        time.sleep(0.1)
    raise AssertionError("the pipeline does not listen")
