"""Tells a receiver of OpenLineage about a run: START, RUNNING for each commit of a table, and COMPLETE or FAIL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from calve.errors import SinkUnavailableError
from calve.notify.event import CloudEvent
from calve.notify.http_post import HttpPost
from calve.notify.lineage import Lineage
from calve.settings.notify import OpenLineageReceiver
from calve.table.loaded import Table

if TYPE_CHECKING:
    from openlineage.client.event_v2 import InputDataset, OutputDataset, RunState

__all__ = ["OpenLineage"]

_PATH = "/api/v1/lineage"
_PRODUCER = "urn:calve"
_MOST_OUTPUTS = 1_000
"""Tables that the last event of a run names; each has had an event of its own."""


class OpenLineage:
    """A receiver of run events; used by one thread. A run has one id, whatever was committed in it.

    Args:
        settings: The receiver.
        lineage: What is known of the pipeline.
    """

    at_once = 1

    def __init__(self, settings: OpenLineageReceiver, lineage: Lineage) -> None:
        from openlineage.client.uuid import generate_new_uuid

        self._namespace = settings.namespace
        headers = {"content-type": "application/json", **settings.headers}
        self._post = HttpPost(settings.url, headers, settings.timeout, _PATH)
        self._lineage = lineage
        self._run_id = str(generate_new_uuid())
        self._began_at = _now()
        self._has_begun = False
        self._outputs: dict[str, tuple[str, str]] = {}

    def begin(self) -> None:
        """Send START, with the time at which the run began; it comes again before the first commit if it fails.

        Raises:
            SinkUnavailableError: The receiver has not taken it.
        """
        from openlineage.client.event_v2 import RunState

        if not self._has_begun:
            self._emit(RunState.START, self._began_at, [])
            self._has_begun = True

    def send(self, events: Sequence[CloudEvent]) -> None:
        """Send RUNNING for each commit of a table; other events are not about lineage.

        Raises:
            SinkUnavailableError: It is unknown which of them it has; repeat the call.
        """
        from openlineage.client.event_v2 import RunState

        for event in events:
            if event.type == "table.committed":
                self.begin()
                self._emit(RunState.RUNNING, event.time, [self._output(event.data)])

    def end(self, is_failed: bool) -> None:
        """Send COMPLETE, or FAIL, with the tables of the run.

        Raises:
            SinkUnavailableError: The receiver has not taken it.
        """
        from openlineage.client.event_v2 import OutputDataset, RunState

        self.begin()
        outputs = [OutputDataset(*names) for names in list(self._outputs.values())[:_MOST_OUTPUTS]]
        self._emit(RunState.FAIL if is_failed else RunState.COMPLETE, _now(), outputs)

    def probe(self) -> None:
        """Ask whether the receiver is there, without sending an event.

        Raises:
            SinkUnavailableError: It is not.
        """
        self._require(self._post.probe())

    def _emit(self, state: RunState, time: str, outputs: list[OutputDataset]) -> None:
        from openlineage.client.event_v2 import Job, Run, RunEvent
        from openlineage.client.facet_v2 import job_type_job
        from openlineage.client.serde import Serde

        kind = job_type_job.JobTypeJobFacet("STREAMING", "CALVE", "PIPELINE", producer=_PRODUCER)
        event = RunEvent(
            eventType=state,
            eventTime=time,
            run=Run(self._run_id),
            job=Job(self._namespace, self._lineage.pipeline, {"jobType": kind}),
            inputs=self._inputs(),
            outputs=outputs,
            producer=_PRODUCER,
        )
        self._require(self._post.send(Serde.to_json(event).encode())[0])

    def _require(self, failure: str) -> None:
        if failure:
            raise SinkUnavailableError(
                f"{self._post.address} gets no events: {failure}",
                step="notify",
                target=self._post.address,
                hint="The events wait in the state and are sent when it answers",
            )

    def _inputs(self) -> list[InputDataset]:
        from openlineage.client.event_v2 import InputDataset

        return [InputDataset(namespace, name) for namespace, name in self._lineage.inputs]

    def _output(self, data: dict[str, Any]) -> OutputDataset:
        """Return the dataset of a committed table; after a restart its columns are not known before its next commit."""
        from openlineage.client.event_v2 import OutputDataset
        from openlineage.client.facet_v2 import (
            dataset_version_dataset,
            output_statistics_output_dataset,
            symlinks_dataset,
        )

        catalog, name = data["catalog"], data["table"]
        table = self._lineage.tables.get((catalog, name))
        names = _names(table.location) if table else (f"iceberg://{catalog}", name)
        self._outputs[f"{catalog}.{name}"] = names
        identifier = symlinks_dataset.Identifier(catalog, name, "TABLE")
        facets: dict[str, Any] = {"symlinks": symlinks_dataset.SymlinksDatasetFacet([identifier], producer=_PRODUCER)}
        if data["snapshot_id"]:
            facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(
                data["snapshot_id"], producer=_PRODUCER
            )
        if table:
            facets |= _columns(table, self._lineage)
        statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
            data["rows"], data["bytes"], data["files"], producer=_PRODUCER
        )
        return OutputDataset(*names, {"outputStatistics": statistics}, facets=facets)


def _names(location: str) -> tuple[str, str]:
    """Return namespace and name of a table at a location, as Spark's integration of OpenLineage spells them."""
    parts = urlsplit(location)
    if parts.scheme in ("", "file"):
        return "file", parts.path
    return f"{parts.scheme}://{parts.netloc}", parts.path.strip("/")


def _columns(table: Table, lineage: Lineage) -> dict[str, Any]:
    """Return the facets of a table's columns: their types, and the fields that they come from if these are known."""
    from openlineage.client.facet_v2 import column_lineage_dataset, schema_dataset

    schema = table.schema
    fields = [
        schema_dataset.SchemaDatasetFacetFields(field.name, str(field.field_type), field.doc) for field in schema.fields
    ]
    facets: dict[str, Any] = {"schema": schema_dataset.SchemaDatasetFacet(fields, producer=_PRODUCER)}
    if lineage.is_by_name and len(lineage.inputs) == 1:
        [(namespace, name)] = lineage.inputs
        same = [column_lineage_dataset.Transformation("DIRECT", "IDENTITY")]
        columns = {
            field.name: column_lineage_dataset.Fields(
                [column_lineage_dataset.InputField(namespace, name, field.name, same)]
            )
            for field in schema.fields
            if field.name not in lineage.added
        }
        facets["columnLineage"] = column_lineage_dataset.ColumnLineageDatasetFacet(columns, producer=_PRODUCER)
    return facets


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
