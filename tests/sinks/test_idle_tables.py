"""Tables that many batches do not use are forgotten, the longest idle first, and only where there are many."""

from __future__ import annotations

from calve.sinks.iceberg.idle_tables import IdleTables


def test_only_tables_that_no_recent_batch_used_are_forgotten_and_some_always_stay() -> None:
    idle, loaded = IdleTables(kept=2, batches=3), {"a", "b", "c", "d"}
    idle.use(loaded)
    for _ in range(3):
        assert idle.next_batch(loaded) == []
        idle.use(["d"])
    assert set(idle.next_batch(loaded)) < {"a", "b", "c"}
    idle = IdleTables(kept=2, batches=3)
    idle.use(["a"])
    idle.next_batch(loaded)
    idle.use(["b", "c"])
    for _ in range(2):
        assert idle.next_batch(loaded) == []
    idle.use(["d"])
    assert idle.next_batch(loaded) == ["a"]
    loaded.remove("a")
    assert idle.next_batch(loaded) == ["b"] or idle.next_batch(loaded) == ["c"]


def test_few_tables_are_never_forgotten() -> None:
    idle = IdleTables(kept=4, batches=1)
    assert [idle.next_batch({"a", "b", "c", "d"}) for _ in range(10)] == [[]] * 10
