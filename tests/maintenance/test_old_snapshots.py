"""Old snapshots go by age and by number; what somebody needs stays."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from calve.maintenance.old_snapshots import Expiry, PastSnapshot, SnapshotHistory, expiry
from calve.table.limits import MaintenanceLimits

LIMITS = MaintenanceLimits(max_snapshots=100, least_age=timedelta(minutes=10))
DAY, NOW = 86_400.0, 10_000_000.0


def line(count: int, every_seconds: float) -> list[PastSnapshot]:
    """Newest first; the id is the place."""
    return [PastSnapshot(place, NOW - place * every_seconds, "p") for place in range(count)]


def history(count: int, every_seconds: float = 60.0, **more: object) -> SnapshotHistory:
    return replace(SnapshotHistory(line(count, every_seconds), heads=frozenset({0})), **more)  # type: ignore[arg-type]


def test_up_to_the_limit_only_the_age_counts() -> None:
    assert expiry(history(100), LIMITS, NOW).ids == ()
    assert expiry(history(8, DAY), LIMITS, NOW).ids == (5, 6, 7)
    shorter = {"history.expire.max-snapshot-age-ms": str(int(2 * DAY * 1000))}
    assert expiry(history(5, DAY, properties=shorter), LIMITS, NOW).ids == (2, 3, 4)
    assert expiry(history(5, DAY), replace(LIMITS, snapshot_age=timedelta(days=4)), NOW).ids == (4,)


def test_beyond_the_limit_a_quarter_goes_at_once() -> None:
    found = expiry(history(101), LIMITS, NOW)
    assert (len(found.ids), min(found.ids), found.is_due) == (26, 75, True)


def test_young_snapshots_stay_however_many_there_are() -> None:
    found = expiry(history(700, 1.0), LIMITS, NOW)
    assert min(found.ids) == 600
    assert expiry(history(500, 1.0), LIMITS, NOW).ids == ()


def test_a_few_wait_for_an_hour_since_the_last_expiry() -> None:
    assert expiry(history(8, DAY), LIMITS, NOW).is_due
    assert not expiry(history(8, DAY), LIMITS, NOW, last=NOW - 3599).is_due
    assert expiry(history(8, DAY), LIMITS, NOW, last=NOW - 3600).is_due


def test_what_a_following_pipeline_has_not_read_stays_until_the_tables_own_age() -> None:
    found = expiry(history(150, followed={"calve-q": 120}), LIMITS, NOW)
    assert (min(found.ids), max(found.ids), found.kept_for) == (121, 149, "calve-q")
    assert expiry(history(150, followed={"calve-q": 149, "calve-r": 3}), LIMITS, NOW).ids == ()
    assert expiry(history(8, DAY, followed={"calve-q": 7}, heads=frozenset({0, 7})), LIMITS, NOW).ids == (5, 6)


def test_heads_of_branches_and_tags_stay_and_the_number_that_the_table_wants() -> None:
    found = expiry(history(150, heads=frozenset({0, 90, 140})), LIMITS, NOW)
    assert not {0, 90, 140} & set(found.ids)
    least = {"history.expire.min-snapshots-to-keep": "7"}
    assert expiry(history(8, DAY, properties=least), LIMITS, NOW).ids == (7,)


def test_the_last_snapshot_of_each_pipeline_with_a_mark_stays_for_a_rebuild() -> None:
    """Its summary has the source's position; compactions of a table without news must not push it out."""
    rewrites = [PastSnapshot(place, NOW - place * DAY) for place in range(6)]
    own = [
        PastSnapshot(6, NOW - 6 * DAY, "p"),
        PastSnapshot(7, NOW - 7 * DAY, "p"),
        PastSnapshot(8, NOW - 8 * DAY, "q"),
    ]
    past = SnapshotHistory([*rewrites, *own], heads=frozenset({0}), pipelines=frozenset({"p"}))
    assert expiry(past, LIMITS, NOW).ids == (5, 7, 8)


def test_snapshots_of_no_branch_go_by_age_only() -> None:
    loose = [PastSnapshot(1000, NOW - 9 * DAY), PastSnapshot(1001, NOW - 60)]
    assert expiry(history(3, others=loose), LIMITS, NOW) == Expiry((1000,), True)


def test_without_a_limit_of_their_number_only_the_age_counts() -> None:
    assert expiry(history(5000), replace(LIMITS, max_snapshots=0), NOW).ids == ()


def test_a_table_that_shares_files_with_others_keeps_its_snapshots() -> None:
    assert expiry(history(500, properties={"gc.enabled": "false"}), LIMITS, NOW).ids == ()


def test_what_waits_to_be_published_stays_however_old_it_is() -> None:
    waiting = replace(LIMITS, keeps_waiting=True)
    assert expiry(history(9, DAY, main=7), LIMITS, NOW).ids == (5, 6, 7, 8)
    assert expiry(history(9, DAY, main=7), waiting, NOW).ids == (7, 8)
    assert expiry(history(9, DAY, main=None), waiting, NOW).ids == ()
