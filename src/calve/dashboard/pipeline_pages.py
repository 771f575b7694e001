"""What the pages of one pipeline show: its drawing, its definition, its log, and each of its tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from calve.dashboard.chart import Chart, rows_chart
from calve.dashboard.flow import Flow, flow, sink_of
from calve.dashboard.history import SampleHistory
from calve.dashboard.table_view import Contents, TableReader
from calve.observe.blueprint import Blueprint, SinkPart, read_blueprint
from calve.observe.humanize import harmless
from calve.observe.recent_lines import LINES_FILE, MOST_LINES
from calve.observe.report import PipelineReport
from calve.observe.state_folder import Folder

__all__ = ["PipelinePages", "Sinks"]

_MOST_BYTES = 1 << 20
_UNKNOWN = (
    "The catalog of this table is not a file of this machine, and the state has no credentials: start the dashboard "
    "with --pipelines and the YAML of the pipelines"
)
Sinks = Mapping[str, tuple[SinkPart, ...]]
"""The sinks of each pipeline with the properties of their catalogs, from its YAML."""


@dataclass(frozen=True)
class PipelinePages:
    """The pages of the pipelines of a state folder.

    Attributes:
        state: The state folder.
        history: The figures of the last hour.
        sinks: Those of pipelines whose YAML is known.
        reader: Reads tables.
    """

    state: str
    history: SampleHistory
    sinks: Sinks = field(default_factory=dict, repr=False)
    reader: TableReader = field(default_factory=TableReader)

    def flow(self, report: PipelineReport) -> Flow | None:
        """Return the drawing of a pipeline; None if no run of this version has described it."""
        blueprint = read_blueprint(self.state, report.pipeline)
        return flow(blueprint, report) if blueprint else None

    def charts(self, report: PipelineReport, now: float) -> dict[str, Chart]:
        """Return the chart of each table that has points, by its name."""
        points = {name: self.history.rows.of(report.pipeline, name) for name in report.tables}
        return {name: rows_chart(followed, now) for name, followed in points.items() if followed}

    def definition(self, pipeline: str) -> str:
        """Return the YAML of a pipeline without secrets; empty: it is not known."""
        blueprint = read_blueprint(self.state, pipeline)
        return "\n".join(map(harmless, blueprint.yaml.splitlines())) if blueprint else ""

    def log(self, pipeline: str) -> list[str]:
        """Return the last lines of a pipeline's log, oldest first."""
        try:
            content = (Folder.at(self.state) / pipeline).read(LINES_FILE)[-_MOST_BYTES:]
        except (OSError, ValueError):
            return []
        return [harmless(line) for line in content.decode(errors="replace").splitlines()[-MOST_LINES:]]

    def table(self, report: PipelineReport, table: str, now: float) -> dict[str, Any]:
        """Return what the page of a table shows, besides the pipeline."""
        sink = self._sink(report.pipeline, table, is_letters=table in report.dead_letter_tables)
        if sink is None or not sink.catalog:
            contents = Contents(
                notes=[_UNKNOWN if sink is None or sink.kind == "iceberg" else "It is no Iceberg table"]
            )
        else:
            contents = self.reader.read(sink.catalog, table)
        points = self.history.rows.of(report.pipeline, table)
        return {"name": harmless(table), "contents": contents, "chart": rows_chart(points, now) if points else None}

    def _sink(self, pipeline: str, table: str, is_letters: bool) -> SinkPart | None:
        """Return the sink of a table, with the properties of its catalog if they are known."""
        configured = self.sinks.get(pipeline)
        blueprint = Blueprint(sinks=configured) if configured else read_blueprint(self.state, pipeline)
        if blueprint is None:
            return None
        named_sink = None if is_letters else sink_of(blueprint, table)
        return named_sink or next((sink for sink in blueprint.sinks if sink.catalog), None)
