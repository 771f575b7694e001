"""A new kind of sink is one folder and one line: nothing else in Calve knows which kinds there are."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import calve
from kit.running import Calve

pytestmark = pytest.mark.spark

LINES = Path(__file__).parents[1] / "contract/new/lines"
"""The smallest sink that works."""
YAML = """
p:
  source: {file: {path: "in/*.ndjson", settle: 0s}}
  route: [{odd: "/n == 1"}]
  sink:
    - lines: {folder: out}
    - iceberg: {table_identifier: a.b, auto_create: true, routes: [odd]}
"""


@pytest.fixture
def with_lines(tmp_path: Path) -> dict[str, str]:
    """The environment of processes that find a copy of Calve with the sink `lines`."""
    package = tmp_path / "lib" / "calve"
    shutil.copytree(Path(calve.__file__).parent, package)
    shutil.copytree(LINES, package / "sinks/lines")
    plugins = package / "pipeline/plugins.py"
    plugins.write_text(plugins.read_text().replace('    "opensearch",\n', '    "opensearch",\n    "lines",\n'))
    return {"PYTHONPATH": os.pathsep.join([str(package.parent), os.environ.get("PYTHONPATH", "")])}


def test_a_sink_is_added_by_a_folder_and_a_line(with_lines: dict[str, str], tmp_path: Path) -> None:
    one = Calve(tmp_path / "run", YAML)
    (one.folder / "in").mkdir()
    (one.folder / "in/a.ndjson").write_text('{"n": 1}\n{"n": 2, "how": "bad"}\n{"n": 3}\n')
    process = one.start("--once", environment=with_lines)
    assert process.wait(120) == 0, one.said()
    assert [file.read_text() for file in (one.folder / "out").iterdir()] == ['{"n": 1}\n{"n": 3}\n']
    assert one.rows("a.b").to_pylist() == [{"n": 1}]
    assert [(each["sink"], each["code"]) for each in one.dead_letters("p")] == [("lines", "SINK_REFUSED")]
    assert one.status("p")["state"] == "stopped"
