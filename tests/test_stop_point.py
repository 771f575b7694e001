from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from calve import stop_point

MEET = """
from calve import stop_point
for text in ("a", "b", "c"):
    for point in ("one", "two"):
        try:
            stop_point.fail_if(point, lambda: [text])
        except RuntimeError as error:
            print(error)
"""
REACH = "from calve import stop_point\nfor n in range(3):\n  print(n, flush=True)\n  stop_point.stop_at('here')"


@pytest.mark.parametrize(
    ("stop_at", "printed", "code"),
    [
        ("", "0\n1\n2\n", 0),
        ("elsewhere", "0\n1\n2\n", 0),
        ("here", "0\n", -signal.SIGKILL),
        ("here:3", "0\n1\n2\n", -signal.SIGKILL),
    ],
)
def test_a_process_ends_at_the_point_that_the_environment_names(stop_at: str, printed: str, code: int) -> None:
    environment = os.environ | {stop_point.VARIABLE: stop_at}
    ran = subprocess.run([sys.executable, "-c", REACH], env=environment, capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.returncode) == (printed, code)


def test_only_the_first_process_ends_where_only_one_may(tmp_path: Path) -> None:
    environment = os.environ | {stop_point.VARIABLE: "here", stop_point.ONCE_VARIABLE: str(tmp_path / "ended")}
    command = [sys.executable, "-c", REACH]
    ran = [subprocess.run(command, env=environment, capture_output=True, check=False).returncode for _ in range(2)]
    assert ran == [-signal.SIGKILL, 0]


def test_a_point_fails_where_it_meets_its_text_and_no_other_one_does() -> None:
    environment = os.environ | {stop_point.FAIL_VARIABLE: "one:a;two:b"}
    ran = subprocess.run([sys.executable, "-c", MEET], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout == "one met a\ntwo met b\n"
