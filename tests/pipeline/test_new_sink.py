"""A new kind of sink is one folder and one line: nothing else in Calve knows which kinds there are."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import calve
from running import Calve

pytestmark = pytest.mark.spark

SETTINGS = '''
from dataclasses import dataclass
from calve.settings import option
from calve.sinks.settings import SinkSettings

@dataclass(frozen=True)
class SETTINGS(SinkSettings):
    """Writes events as lines."""

    folder: str = option(doc="The folder of the files.")
'''
SINK = r"""
import pathlib
import zlib
from dataclasses import dataclass, replace
from calve.dead_letters.rejects import DeadLetterPlace
from calve.event.reject import Code, Reject, rejects_table
from calve.expression import compile_format
from calve.record.written import IndexDocuments
from calve.route.gates import gates
from calve.route.route import SinkRoute
from calve.sinks.sink import Order

class Sink:
    flush_seconds, max_batch_bytes, order, tables, metadata = 0.1, 1 << 20, Order.ANY, None, frozenset()
    def __init__(self, opening):
        self.opening, self.dead_letters = opening, DeadLetterPlace(opening.dead_letters)
        self.folder = opening.entry.value.folder
    def open(self):
        pathlib.Path(self.folder).mkdir(exist_ok=True)
    def begin_batch(self, tables): pass
    def job(self, moment, prefix, replays):
        route = SinkRoute(compile_format("lines"), gates(self.opening.entry, self.opening.metadata))
        return Job(self.opening.label, route, self.dead_letters, str(pathlib.Path(self.folder, prefix).absolute()))

@dataclass(frozen=True)
class Job:
    label: str
    route: SinkRoute
    dead_letters: DeadLetterPlace
    prefix: str
    def rejecting_into(self, place): return replace(self, dead_letters=place)
    def refused(self, events):
        texts = enumerate(events["json"].to_pylist())
        return rejects_table(Reject(row, Code.SINK_REFUSED, "", "it is bad") for row, text in texts if "bad" in text)
    def writer(self): return Writer(self)

class Writer:
    def __init__(self, job): self.job, self.rows = job, 0
    def write(self, table, events):
        good = [text for text in events["json"].to_pylist() if "bad" not in text]
        number = zlib.crc32(repr(events["event_version"].to_pylist()).encode())
        pathlib.Path(f"{self.job.prefix}{number:08x}").write_text("".join(f"{text}\n" for text in good))
        self.rows += len(good)
        return self.job.refused(events)
    def written(self): return [IndexDocuments("lines", self.rows, 0)]

def open(opening): return Sink(opening)
def probe(settings, spark): pathlib.Path(settings.folder).mkdir(exist_ok=True)
"""
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
    (package / "sinks/lines").mkdir()
    for name, text in (("__init__", ""), ("settings", SETTINGS), ("sink", SINK)):
        (package / "sinks/lines" / f"{name}.py").write_text(text)
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
