from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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


def test_a_configuration_is_read_without_what_only_a_run_imports(tmp_path: Path) -> None:
    """Spark starts the sooner, and `calve validate` ends the sooner."""
    file = tmp_path / "orders.yaml"
    file.write_text("orders: {source: {http: }, sink: [iceberg: {table_identifier: shop.orders, auto_create: true}]}")
    code = (
        "import sys, calve.cli.validate, calve.cli.run; from calve.pipeline.plugins import PLUGINS;"
        "from calve.settings import parse; from pathlib import Path; parse(Path(sys.argv[1]), PLUGINS);"
        "print(*sorted(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code, file], capture_output=True, text=True, check=True)
    assert {"pyiceberg", "pydantic", "duckdb", "pyarrow.compute", "asyncio", "calve.pipeline.driver"}.isdisjoint(
        ran.stdout.split()
    )


def test_connect_takes_spark_settings(shell: Shell, pipelines: Pipelines) -> None:
    jar = "spark.driver.extraClassPath=/opt/driver.jar"
    assert shell("validate", shell.write("a.yaml", GOOD), "--connect", "--conf", jar).exit_code == 0
    assert pipelines.conf == {"spark.driver.extraClassPath": "/opt/driver.jar"}
