"""Fed pipelines with processors: their events leave the path before it is routed, and are routed by themselves."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from calve.processors.chain import Chain, Processors
from calve.record.target import TableRef
from calve.route.route import Router
from calve.route.sink_route import Fork, RouteGate, SinkRoute
from calve.task.isolation import meant_for

__all__ = ["FedPipeline", "Stream"]


@dataclass(frozen=True)
class FedPipeline:
    """A fed pipeline with processors; pickled into the tasks.

    Attributes:
        name: Its name.
        upstream: The number of the branch that its events come from; None: they come from the first pipeline.
        gates: The gates on the way from there.
        processors: Its processors.
        sinks: The numbers of all sinks behind it, those of later branches too.
    """

    name: str
    upstream: int | None
    gates: tuple[RouteGate, ...]
    processors: Processors
    sinks: frozenset[int]


class Stream:
    """Events that the same processors have changed: those of the first pipeline, or of a branch.

    Args:
        branches: All branches.
        routes: The routes of all sinks.
        begun_tenths: When the batch was begun, in tenths of a second since the epoch.
        number: The number of the branch; None: the events of the first pipeline.
        depth: How many other branches are on the way.

    Attributes:
        branch: The branch; None: the events of the first pipeline.
        chain: Its processors in this task; those of the first pipeline run before.
        router: Routes its events to its own sinks, and to the streams that come out of it.
        streams: These streams, in the order of the router's forks.
    """

    def __init__(
        self,
        branches: Sequence[FedPipeline],
        routes: Sequence[SinkRoute],
        begun_tenths: int,
        number: int | None = None,
        depth: int = 0,
    ) -> None:
        self.branch = None if number is None else branches[number]
        self.chain = Chain(self.branch.processors, begun_tenths, depth) if self.branch else None
        later = [at for at, branch in enumerate(branches) if branch.upstream == number]
        self._behind = self.branch.sinks if self.branch else frozenset(range(len(routes)))
        self._own = sorted(self._behind.difference(*(branches[at].sinks for at in later)))
        forks = [Fork(branches[at].gates, branches[at].sinks) for at in later]
        self.router = Router([routes[sink] for sink in self._own], self._own, forks)
        self.streams = [Stream(branches, routes, begun_tenths, at, depth + 1) for at in later]

    @property
    def needs_text(self) -> bool:
        """Whether typed rows must become texts, for itself or a stream that comes out of it."""
        chain_needs_text = self.chain is not None and self.chain.needs_text
        return chain_needs_text or self.router.reads_fields or any(stream.needs_text for stream in self.streams)

    def has_any_of(self, only: Collection[TableRef] | None) -> bool:
        """Return whether one of some tables is behind it; None: all tables."""
        return only is None or any(target.sink in self._behind for target in only)

    def reject(
        self, events: pa.Table, rejects: pa.Table, reject: Callable[[TableRef, pa.Table, pa.Table], None]
    ) -> None:
        """Reject events that its processors cannot process: the sinks of a branch have a dead letter each.

        Those of the first pipeline have one, of its first sink, or each one if all of them are in branches. So a replay
        knows which sinks lack the event (`dead_letters.replay.selection`).

        Args:
            events: The events.
            rejects: Which of them (`REJECTS`).
            reject: Gets the target, the events, and which of them.
        """
        if self._own and self.branch is None:
            reject(TableRef(self._own[0], ""), events, rejects)
            return
        for sink in sorted(self._behind):
            reject(TableRef(sink, ""), events, meant_for(sink, events, rejects))

    def entering(self, events: pa.Table, forks: Sequence[pa.Array | None]) -> Iterator[tuple[Stream, pa.Table]]:
        """Yield each stream that comes out of it with the events that enter it, if there are any.

        Args:
            events: The events that were routed.
            forks: Which of them each gets; None: all.
        """
        for stream, mask in zip(self.streams, forks, strict=True):
            rows = events if mask is None else events.filter(mask)
            if len(rows):
                yield stream, rows
