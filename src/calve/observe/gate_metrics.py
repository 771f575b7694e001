"""The metrics of gates: what waits on a branch, and what each rule says."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from calve.observe.gate_report import GateReport, RuleReport
from calve.observe.report import PipelineReport

__all__ = ["GATES"]

_Samples = Callable[[PipelineReport], Iterable[tuple[list[str], float | int | None]]]


def _gates(value: Callable[[GateReport], int]) -> _Samples:
    return lambda report: [([name], value(table.gate)) for name, table in report.tables.items() if table.gate]


def _rules(value: Callable[[RuleReport], float | None]) -> _Samples:
    return lambda report: [
        ([name, rule], value(rule_report))
        for name, table in report.tables.items()
        if table.gate
        for rule, rule_report in table.gate.rules.items()
    ]


GATES: tuple[tuple[str, str, tuple[str, ...], _Samples], ...] = (
    (
        "calve_gate_blocked",
        "1 while commits of a table wait on their branch until somebody decides (`publish`).",
        ("table",),
        _gates(lambda gate: int(gate.blocked)),
    ),
    (
        "calve_unpublished_rows",
        "Rows of a table that wait on its branch and that `main` lacks (`publish`).",
        ("table",),
        _gates(lambda gate: gate.rows),
    ),
    (
        "calve_unpublished_commits",
        "Commits of a table that wait on its branch and that `main` lacks (`publish`).",
        ("table",),
        _gates(lambda gate: gate.commits),
    ),
    (
        "calve_gate_rule_holds",
        "Whether a rule of `publish` held after the last commit: 1 or 0.",
        ("table", "rule"),
        _rules(lambda rule: int(rule.holds is True)),
    ),
    (
        "calve_gate_rule_figure",
        "What a rule of `publish` found after the last commit: rows, a share, or seconds.",
        ("table", "rule"),
        _rules(lambda rule: rule.figure),
    ),
)
