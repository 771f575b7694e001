from __future__ import annotations

import subprocess
import sys

import pytest

from .conftest import GOOD, Pipelines, Shell

BAD = """\
orders:
  source:
    nothing: {size: -1}
  sink:
    - nowhere: {plaice: here}
"""


@pytest.mark.usefixtures("pipelines")
def test_a_good_file_is_ok(shell: Shell) -> None:
    result = shell("validate", shell.write("a.yaml", GOOD))
    assert (result.exit_code, result.stdout) == (0, "OK: 1 pipeline: orders\n")


@pytest.mark.usefixtures("pipelines")
def test_every_error_is_told_at_once_with_its_line(shell: Shell) -> None:
    result = shell("validate", shell.write("a.yaml", BAD))
    assert result.exit_code == 2
    lines = result.stderr.splitlines()
    assert lines[0].startswith("a.yaml:3:")
    assert lines[1].startswith("a.yaml:5:")
    assert lines[-1] == f"{len(lines) - 1} errors in the configuration"
    assert "Traceback" not in result.stderr


def test_with_connect_what_does_not_answer_is_exit_code_1(shell: Shell, pipelines: Pipelines) -> None:
    shell.write("a.yaml", GOOD)
    assert shell("validate", "a.yaml", "--connect").exit_code == 0
    pipelines.problems = ["orders: the catalog does not answer"]
    result = shell("validate", "a.yaml", "--connect")
    assert (result.exit_code, result.stderr) == (1, "Error: orders: the catalog does not answer\n")
    assert shell("validate", "a.yaml").exit_code == 0


def test_a_configuration_is_read_without_what_only_a_run_imports() -> None:
    """Spark starts the sooner, and `calve validate` ends the sooner."""
    code = "import sys, calve.cli.validate, calve.cli.run; print(*sorted(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"pyiceberg.io.pyarrow", "pyiceberg.table", "calve.pipeline.flow"}.isdisjoint(ran.stdout.split())
