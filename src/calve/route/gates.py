"""Compiles the conditions that events must match before a sink."""

from __future__ import annotations

from collections.abc import Collection

from calve.expression import compile_condition
from calve.route.route import RouteGate
from calve.settings import SinkEntry

__all__ = ["gates"]


def gates(sink: SinkEntry, metadata: Collection[str]) -> tuple[RouteGate, ...]:
    """Compile the conditions of the pipelines before a sink; `metadata` are the attributes that events have."""
    return tuple(
        RouteGate(
            gate.pipeline,
            {name: compile_condition(text, metadata) for name, text in gate.conditions.items()},
            gate.routes,
        )
        for gate in sink.gates
    )
