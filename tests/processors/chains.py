"""Runs processors on events, as a task does."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from calve.event.columns import EVENT
from calve.event.dead_letter import letters
from calve.pipeline.plugins import PLUGINS
from calve.processors.chain import Chain, Processed, compiled
from calve.settings import parse_text
from calve.settings.pipeline import Plugin

BEGUN_TENTHS = 17_679_612_005
"""When the batch was begun: 2026-01-09T12:20:00.5Z."""


@dataclass
class Ran:
    """What processors did: the events, the dead letters, and the counts."""

    texts: list[str]
    failed: list[dict[str, Any]]
    processed: Processed = field(repr=False)

    @property
    def events(self) -> list[Any]:
        return [json.loads(text) for text in self.texts]

    @property
    def tags(self) -> list[Any]:
        return [text and json.loads(text) for text in self.processed.rows["tags"].to_pylist()]


def plugins(*processors: dict[str, Any]) -> list[Plugin]:
    pipeline = {
        "source": {"http": {}},
        "processor": list(processors),
        "sink": [{"iceberg": {"table_identifier": "a.b"}}],
    }
    [settings] = parse_text(json.dumps({"one": pipeline}), PLUGINS).pipelines
    return settings.processors


def chain(*processors: dict[str, Any], metadata: tuple[str, ...] = ()) -> Chain:
    found = compiled(plugins(*processors), metadata)
    assert found
    return Chain(pickle.loads(pickle.dumps(found)), BEGUN_TENTHS)


def run(processors: list[dict[str, Any]], *events: Any, **columns: Any) -> Ran:
    """Run processors on events, given as values or as texts."""
    texts = [event if isinstance(event, str | bytes) else json.dumps(event) for event in events]
    rows = pa.table({EVENT: pa.array([t.encode() if isinstance(t, str) else t for t in texts], pa.binary()), **columns})
    processed = chain(*processors, metadata=tuple(columns)).run(rows)
    failed = [*letters(rows, processed.malformed, {}), *letters(processed.failed_rows, processed.failed, {})]
    return Ran([text.decode() for text in processed.rows[EVENT].to_pylist()], failed, processed)


def ran(processor: dict[str, Any], *events: Any) -> list[Any]:
    """Return the events after one processor that must not fail."""
    found = run([processor], *events)
    assert found.failed == []
    return found.events
