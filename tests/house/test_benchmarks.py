"""Benchmarks measure what they say: turns, medians, sums, files; `make help` lists them."""

import json
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import pytest
from bench import lag, measure, plot, report
from bench.made_events import Events

ROOT = Path(__file__).parents[2]
SERVER = """
import subprocess, sys
from bench.measure import Cpu
work = "import time; input(); sum(range(10**7)); print(time.process_time(), flush=True); input()"
server, cpu = subprocess.Popen([sys.executable, "-c", work], stdin=-1, stdout=-1), Cpu()
if sys.argv[1:]:
    cpu.leave_out(server.pid)
server.stdin.write(b"\\n")
server.stdin.flush()
print(server.stdout.readline().decode(), cpu.seconds())
server.communicate(b"\\n")
"""
NAMES = re.findall(r"[a-z]+", re.search(r"^BENCHES := .*bench-,(.*)\)", (ROOT / "Makefile").read_text(), re.M)[1])


@pytest.mark.parametrize("name", NAMES)
def test_every_benchmark_is_a_program_that_says_how_to_run_it(name):
    text = (ROOT / "bench" / f"{name}.py").read_text()
    assert f"make bench-{name} " in text
    assert "__main__" in text


@pytest.mark.parametrize("name", NAMES)
def test_every_benchmark_is_in_the_document(name):
    assert f"make bench-{name}`" in (ROOT / "docs" / "benchmarks.md").read_text()


def test_make_help_lists_every_benchmark():
    said = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert [name for name in NAMES if not re.search(rf"make bench-{name}\t\w", said)] == []


def test_contenders_take_turns_and_the_order_alternates():
    order = []
    runs = {
        name: partial(lambda name, number: order.append((number, name)) or {"s": number + 1.0}, name) for name in "ab"
    }
    results = measure.take_turns(runs, 3)
    assert order == [(0, "a"), (0, "b"), (1, "b"), (1, "a"), (2, "a"), (2, "b")]
    assert measure.medians(results) == {"a": {"s": 2.0}, "b": {"s": 2.0}}


def test_a_ratio_compares_rounds_and_not_medians():
    results = {"a": [{"s": 1.0}, {"s": 10.0}, {"s": 3.0}], "b": [{"s": 2.0}, {"s": 20.0}, {"s": 3.0}]}
    assert measure.ratio(results, "s", "b", "a") == 2.0


def test_the_cpu_of_children_counts_after_their_end():
    before = measure.CPU.seconds()
    child = subprocess.Popen([sys.executable, "-c", "sum(range(10**7)); input()"], stdin=subprocess.PIPE)
    try:
        while measure.CPU.seconds() <= before:
            assert child.poll() is None
    finally:
        child.communicate(b"\n")
    assert measure.CPU.seconds() > before


@pytest.mark.parametrize("is_left_out", [False, True])
def test_the_cpu_of_a_server_that_is_left_out_does_not_count(is_left_out):
    program = [sys.executable, "-c", SERVER, *(["leave out"] if is_left_out else [])]
    said = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    of_server, counted = map(float, said.split())
    assert (counted < of_server / 2) == is_left_out


def test_a_transaction_is_readable_when_a_snapshot_has_its_last_row(monkeypatch, tmp_path):
    last_ids = {7: 0, 8: 25, 9: 0, 10: 31}
    monkeypatch.setattr(lag, "_added", lambda folder, snapshot: last_ids[snapshot])
    sent = [(1.0, 10), (2.0, 25), (3.0, 30)]
    seen = [(1.5, 7), (2.5, 8), (3.5, 9), (4.5, 10)]
    assert lag.readable_after(sent, tmp_path, seen) == [1.5, 0.5, 1.5]


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.052, "0.05"), (9.613, "9.61"), (47.31, "47.3"), (623456, "623,456")]
)
def test_figures_are_shown_with_three_digits(value, text):
    assert measure.shown(value) == text


@pytest.mark.parametrize("tables", [1, 7])
def test_the_expected_sums_are_those_of_the_events(tables):
    made = Events(5000, tables)
    rows = [json.loads(event) for event in made]
    cents, lengths = (round(row["amount"] * 100) for row in rows), (len(row["page"] + row["session"]) for row in rows)
    assert made.sums() == [5000, sum(r["id"] for r in rows), sum(r["n"] for r in rows), sum(cents), sum(lengths)]


def test_a_report_writes_its_figures_and_a_drawing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(report, "FOLDER", tmp_path)
    made = report.Report("some", "A < B")
    made.target("ratio", 4.9, least=5)
    made.target("seconds", 0.4, most=0.5)
    made.bars({"a": [{"s": 1.0}], "b": [{"s": 2.0, "more": 1.0}]}, "s")
    said = capsys.readouterr().out
    assert "ratio: 4.90; target at least 5: MISSED" in said
    assert "seconds: 0.40; target at most 0.5: met" in said
    assert "| b | 2.00 | 1.00 |" in said
    found = json.loads((tmp_path / "some.json").read_text())
    assert found["medians"] == {"a": {"s": 1.0}, "b": {"s": 2.0, "more": 1.0}}
    assert [one["met"] for one in found["targets"]] == [False, True]
    assert "A < B: s" in "".join(ElementTree.parse(tmp_path / "some.svg").getroot().itertext())


def test_curves_are_a_drawing_too():
    root = ElementTree.fromstring(plot.lines("t", {"x & y": [(1.0, 0.0), (2.0, 5.0)], "none": [(1.0, 0.0)]}))
    assert len(root.findall("{*}polyline")) == 2
