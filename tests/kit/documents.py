"""The code blocks of the documents, and how a test pastes one into a shell."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kit.command_lines import command_lines
from kit.running import PATIENCE_SECONDS, Calve

ROOT = Path(__file__).parents[2]
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text() for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
}
_BLOCK = re.compile(r"(?:<!-- (unchecked|not run): (.+?) -->\n+)?^( *)```(.*)\n((?:.*\n)*?)\3```$", re.MULTILINE)


class Block(NamedTuple):
    """A code block of a page.

    Attributes:
        unchecked: Why it is not even parsed, if it is not.
        not_run: Why no test runs it, if none does. Both stand in a comment in the line before it.
    """

    page: str
    line: int
    language: str
    text: str
    unchecked: str
    not_run: str

    @property
    def place(self) -> str:
        """Where it stands."""
        return f"{self.page}:{self.line}"


def blocks() -> Iterator[Block]:
    """Yield all code blocks of all pages."""
    for page, text in PAGES.items():
        for match in _BLOCK.finditer(text):
            mark, reason, indent, language, code = match.groups()
            lines = [line.removeprefix(indent) for line in code.splitlines(keepends=True)]
            yield Block(
                page,
                text.count("\n", 0, match.start(4)) + 1,
                language,
                "".join(lines),
                reason if mark == "unchecked" else "",
                reason or "",
            )


def runnable(page: str) -> list[str]:
    """Return the blocks of a page that a test must run, in their order: all but YAML and those that say why not."""
    return [block.text for block in blocks() if block.page == page and block.language != "yaml" and not block.not_run]


def yamls(page: str) -> list[str]:
    """Return the YAML blocks of a page, in their order."""
    return [block.text for block in blocks() if block.page == page and block.language == "yaml"]


def paste(block: str, folder: Path, *, may_fail: bool = False) -> str:
    """Paste the commands of a block into a shell, all at once; return the block as it then looks there.

    Args:
        block: Commands after `$ `, each with what it prints below it; or commands alone, one in each line.
        may_fail: Whether a command may end with another exit code than 0.
    """
    lines = block.splitlines()
    commands = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")] or lines
    shown = "$ " if lines[0].startswith("$ ") else ""
    script = "".join(f"cat <<'SHOWN'\n{shown}{command}\nSHOWN\n{command}\n" for command in commands)
    pasted = subprocess.run(
        ["bash", "-c" if may_fail else "-ec", script],
        cwd=folder,
        env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert may_fail or pasted.returncode == 0, pasted.stdout
    return pasted.stdout


def without_numbers(text: str) -> str:
    """Replace what differs from run to run: numbers, names of states and files."""
    text = re.sub(r"\bstate [0-9a-f]{8}\b", "state S", text)
    return re.sub(r"\d[\d,]*", "N", text)


def run_lines(job: Calve, block: str) -> str:
    """Run each `calve …` of a block in the folder; a run ends by itself, and so does the block. Return what they print."""
    printed = []
    for words in command_lines(block):
        more = ("--once", "--metrics-port", "0") if words[0] == "run" else ()
        called = job.call(*words, *more)
        assert called.exit_code == 0, (words, called.output)
        printed.append(called.stdout)
    return "".join(printed)
