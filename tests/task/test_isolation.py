"""Events that are left out of a batch become dead letters of the sinks that lack them, and of no other one."""

from __future__ import annotations

import pyarrow as pa

from calve.event.columns import EVENT, POSITION, SINK
from calve.task.isolation import Excluded, Isolation


def test_an_event_of_a_replay_that_is_left_out_again_is_a_dead_letter_of_its_own_sink_alone() -> None:
    columns = {EVENT: pa.array([b"{}"] * 3, pa.binary()), POSITION: pa.array(range(3), pa.int64())}
    isolation = Isolation(excluded=(Excluded((0, 2), None, "", "why"),))
    for own, expected in (([1, None, 0], [(0, [1]), (1, [0, 1])]), (None, [(0, [0, 1]), (1, [0, 1])])):
        events = pa.table({**columns, SINK: pa.array(own, pa.int32())} if own else columns)
        letters: list[tuple[int, list[int]]] = []
        kept = isolation.keep_events(
            events, 2, lambda target, _, rejects, to=letters: to.append((target.sink, rejects["row"].to_pylist()))
        )
        assert (letters, len(kept)) == (expected, 1)
