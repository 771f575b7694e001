"""What tables know of a pipeline whose state is lost: its marks, and the summaries of its snapshots."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from calve.catalog.catalog import Catalog
from calve.commit.mark import Mark
from calve.engine.java.errors import java_errors
from calve.sources.source import Position

__all__ = ["Evidence", "evidence"]


@dataclass(frozen=True)
class Evidence:
    """What one branch of a table knows. It has all rows up to `batch`, and none of later batches.

    Attributes:
        table: Its identifier.
        branch: Its branch.
        mark: The table property with the mark.
        state_id: The state that committed to it.
        batch: The last batch that it has.
        complete: A batch up to which all tables of the pipeline have their rows.
        positions: The source's position after each batch that a retained snapshot names.
    """

    table: str
    branch: str
    mark: str
    state_id: str
    batch: int
    complete: int = 0
    positions: Mapping[int, Position] = field(default_factory=dict)


def evidence(catalog: Catalog, pipeline: str) -> list[Evidence]:
    """Collect the evidence of a pipeline from all tables of a catalog."""
    marks: list[Evidence] = []
    for identifier in catalog.tables():
        metadata = catalog.load_java(identifier).operations().current()
        with java_errors("read the table", identifier):
            summaries = [_strings(catalog, snapshot.summary()) for snapshot in metadata.snapshots()]
            marks += _evidence_of(identifier, pipeline, _strings(catalog, metadata.properties()), summaries)
    return marks


def _strings(catalog: Catalog, java_map: Any) -> dict[str, str]:
    """Return a Java map as a dict."""
    jvm: Any = catalog.spark.jvm
    strings: dict[str, str] = json.loads(jvm.org.apache.iceberg.util.JsonUtil.mapper().writeValueAsString(java_map))
    return strings


def _evidence_of(
    table: str, pipeline: str, properties: Mapping[str, str], summaries: list[dict[str, str]]
) -> list[Evidence]:
    main = Mark(pipeline, "", 0).key("main")
    marks = []
    for key, text in properties.items():
        if key != main and not key.startswith(f"{main}@"):
            continue
        mark = json.loads(text)
        committed = [
            summary
            for summary in summaries
            if (summary.get("calve.pipeline"), summary.get("calve.state")) == (pipeline, mark["state"])
        ]
        positions = {
            int(summary["calve.batch"]): json.loads(summary["calve.offsets"])
            for summary in committed
            if "calve.offsets" in summary
        }
        complete = max((int(summary.get("calve.complete-batch", 0)) for summary in committed), default=0)
        branch = key.removeprefix(main).removeprefix("@") or "main"
        marks.append(Evidence(table, branch, key, mark["state"], mark["batch"], complete, positions))
    return marks
