"""Plays rounds of broken configurations: `make fuzz FUZZ=--yaml`.

A round is a process that gives changed YAML files to `calve validate`, one after the other. Each must be valid, or be refused with
exit code 1 or 2 and a sentence; there is no traceback, and neither the CPU time of a file nor the memory of a process goes
beyond a bound. The sources of the files are the examples of the documentation.
"""

from __future__ import annotations

import functools
import json
import re
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from click.testing import CliRunner, Result

from calve.cli.main import calve
from fuzz.check import Finding
from fuzz.documents import examples, make
from kit.running import PATIENCE_SECONDS

FILES = 150
CPU_SECONDS = 20.0
MEMORY_BYTES = 3 << 30
ENVIRONMENT = {"HOME": "/nowhere", "PORT": "80", "EMPTY": ""}
SECRETS = re.compile(r"\$\{env:(\w+)")
LOCATED = re.compile(r"^.+?:\d+:\d+: ", re.MULTILINE)


def of(seed: str, number: int, folder: Path) -> tuple[Counter[str], list[Finding]]:
    """Play a round of a seed in a process of its own; return what was counted, and what is wrong."""
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "fuzz.yaml_play", seed, str(number), str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=2 * PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        return Counter(), [Finding("hang", "validate does not end", _last(folder))]
    if done.returncode:
        return Counter(), [
            Finding("stop", f"validate ended with {done.returncode}", done.stderr[-2000:] + _last(folder))
        ]
    told = json.loads(done.stdout.splitlines()[-1])
    return Counter(told["counts"]), [Finding(*each) for each in told["findings"]]


def play(text: str, path: Path) -> tuple[str, list[Finding]]:
    """Validate one file; return whether it is `valid` or `refused`, and what is wrong with the answer."""
    path.write_bytes(text.encode(errors="surrogatepass"))
    began = time.process_time()
    result = CliRunner(env=_environment()).invoke(calve, ["validate", str(path)], prog_name="calve")
    seconds = time.process_time() - began
    found = [Finding(kind, what, f"{result.output[-3000:]}\n{text[:3000]}") for kind, what in wrong(result)]
    if seconds > CPU_SECONDS:
        found.append(Finding("hang", "validate took long", f"{seconds:.0f} s of CPU\n{text[:3000]}"))
    return "refused" if result.exit_code else "valid", found


@functools.cache
def _environment() -> dict[str, str]:
    """Return the variables of the examples, but for one in four."""
    names = sorted({name for text in examples() for name in SECRETS.findall(text)})
    return {name: "a secret of a test" for at, name in enumerate(names) if at % 4} | ENVIRONMENT


def wrong(result: Result) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with an answer of `validate`."""
    if result.exception and not isinstance(result.exception, SystemExit):
        yield "bug", f"{result.exception!r}"[:120]
    if bug := re.search(r"this is a bug in Calve.{0,120}|Traceback.*", result.output):
        yield "bug", bug[0]
    if result.exit_code not in (0, 2):
        yield "bug", f"exit code {result.exit_code}"
    if result.exit_code == 0 and "OK: " not in result.output:
        yield "bug", "exit code 0 without OK"
    if result.exit_code == 2 and not LOCATED.search(result.output):
        yield "bug", "an error without a line"
    if len(result.output) > 10 << 20:
        yield "bug", "more than 10 MB are printed"


def main(seed: str, number: int, folder: Path) -> None:
    """Play a round in this process, and print its report."""
    counts, findings = Counter[str](), list[Finding]()
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    for index in range(FILES):
        kind, found = play(make(f"{seed}-{number}-{index}"), folder / "current.yaml")
        counts.update(["files", kind])
        if found:
            (folder / "current.yaml").rename(folder / f"{index}.yaml")
        findings += found
    print(json.dumps({"counts": counts, "findings": findings}))


def _last(folder: Path) -> str:
    path = folder / "current.yaml"
    return path.read_text(errors="replace")[:3000] if path.exists() else ""


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
