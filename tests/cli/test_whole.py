"""The commands as a person calls them, one after the other, on a real pipeline."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

YAML = """\
orders:
  source:
    file: {path: events.ndjson}
  sink:
    - iceberg: {table_identifier: shop.orders, auto_create: true}
"""


@pytest.mark.spark
def test_run_status_and_dead_letters_tell_the_same_story(tmp_path: Path) -> None:
    def calve(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "calve", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=180, check=False)

    (tmp_path / "orders.yaml").write_text(YAML)
    (tmp_path / "events.ndjson").write_text('{"id": 1}\n{"id": 2}\nnot json\n')
    assert calve("validate", "orders.yaml").returncode == 0
    ran = calve("run", "orders.yaml", "--once", "--json", "--metrics-port", "0")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stderr.splitlines()[-1])["rows"] == 2
    (report,) = json.loads(calve("status", "--json").stdout)["pipelines"]
    assert (report["state"], report["process"], report["events"]) == ("stopped", "ended", 3)
    assert (report["tables"]["shop.orders"]["rows"], report["rejects"]) == (2, {"MALFORMED": 1})
    assert calve("dlq", "show", "--raw").stdout == "not json\n"
