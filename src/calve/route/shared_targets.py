"""Finds source tables whose rows would go to one target, where they replace each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from calve.route.sink_route import SinkRoute
from calve.route.source_tables import names_by_table, passing
from calve.sources.source import SourceTable

__all__ = ["shared_targets"]


def shared_targets(routes: Sequence[SinkRoute], tables: Sequence[SourceTable]) -> list[tuple[str, list[str]]]:
    """Return the targets that get rows of several source tables, each with their names.

    A target that fields of a row decide counts for nothing; conditions on fields may be true.

    Args:
        routes: The routes of the sinks with targets.
        tables: The source tables.
    """
    sources_by_target: dict[tuple[int, str], list[str]] = {}
    for number, route in enumerate(routes):
        for table, target in names_by_table(route.table, _reaching(route, tables)).items():
            sources_by_target.setdefault((number, target), []).append(table)
    return [(target, names) for (_, target), names in sources_by_target.items() if len(names) > 1]


def _reaching(route: SinkRoute, tables: Sequence[SourceTable]) -> Sequence[SourceTable]:
    """Return the tables of which some rows may pass all gates of a sink."""
    for gate in route.gates:
        passing_tables = passing(replace(route, gates=(gate,)), tables)
        tables = tables if passing_tables is None else passing_tables
    return tables
