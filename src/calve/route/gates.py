"""Compiles the conditions that events must match before a sink."""

from __future__ import annotations

from collections.abc import Collection

from calve.expression import compile_condition
from calve.route.sink_route import RouteGate
from calve.settings import SinkEntry
from calve.settings.pipeline import BranchSettings

__all__ = ["gates"]


def gates(sink: SinkEntry | BranchSettings, metadata: Collection[str]) -> tuple[RouteGate, ...]:
    """Compile the conditions of the pipelines before a sink or branch; `metadata` are the attributes of events."""
    return tuple(
        RouteGate(
            gate.pipeline,
            {name: compile_condition(text, metadata) for name, text in gate.conditions.items()},
            gate.routes,
        )
        for gate in sink.gates
    )
