"""The smallest sink that works."""

from pathlib import Path

from calve.sinks.lines.job import Job

from calve.dead_letters.rejects import DeadLetterLocation
from calve.expression import compile_format
from calve.route.gates import gates
from calve.route.sink_route import SinkRoute
from calve.sinks.sink import Order
from calve.state.durable import make_folder, try_folder


class Sink:
    flush_seconds, max_batch_bytes, order, tables, metadata = 0.1, 1 << 20, Order.ANY, None, frozenset()

    def __init__(self, opening):
        self.opening, self.dead_letters = opening, DeadLetterLocation(opening.dead_letters)
        self.folder = Path(opening.entry.value.folder).absolute()

    def open(self):
        make_folder(self.folder)

    def begin_batch(self, tables):
        pass

    def job(self, batch, time_tenths, prefix, replays):
        route = SinkRoute(compile_format("lines"), gates(self.opening.entry, self.opening.metadata))
        return Job(self.opening.label, route, self.dead_letters, str(self.folder / prefix))


def open(opening):
    return Sink(opening)


def probe(settings, spark):
    try_folder(Path(settings.folder))
