"""What the rules of a gate say of commits is what SQL says of their rows."""

from __future__ import annotations

from datetime import timedelta

import duckdb
from hypothesis import given, settings
from hypothesis import strategies as st

from calve.table.gate import CommitGate, Figures, Judge

NOW = 1_000_000_000_000
ROWS = CommitGate(min_rows=10)
NULLS = CommitGate(max_null_share={"a": 0.1})
FRESH = CommitGate(time_column="at", max_age=timedelta(hours=1))


def commit(rows: int, nulls: int = 0, age_seconds: float | None = 0.0) -> Figures:
    newest = None if age_seconds is None else int((NOW / 1000 - age_seconds) * 1_000_000)
    return Figures(at=NOW, rows=rows, nulls={"a": nulls}, newest=newest)


def judge(gate: CommitGate, *commits: Figures | int | None) -> Judge:
    return Judge(gate, enumerate(commits, 1))


def words(judged: Judge) -> dict[str, str]:
    return {rule: verdict.word for rule, verdict in judged.verdicts.items()}


def test_few_rows_wait_for_more_and_are_published_together() -> None:
    judged = judge(ROWS, commit(4))
    assert (judged.publishable, judged.commits, judged.rows, words(judged)) == (None, 1, 4, {"min_rows": "waits"})
    judged = judge(ROWS, commit(4), commit(6), commit(3))
    assert (judged.publishable, judged.commits, judged.rows) == (2, 1, 3)


def test_a_commit_with_too_many_nulls_keeps_back_later_ones_however_good_they_are() -> None:
    judged = judge(NULLS, commit(10, 1), commit(10, 2), *[commit(1000, 0)] * 20)
    assert (judged.publishable, judged.commits, words(judged)) == (1, 21, {"max_null_share.a": "fails"})
    verdict = judged.verdicts["max_null_share.a"]
    assert (verdict.figure, verdict.snapshot) == (0.2, 2)
    assert verdict.text == "a is NULL in 2 of 10 rows (20.000%), at most 10.000%"


def test_a_share_of_nulls_is_judged_only_of_enough_rows() -> None:
    gate = CommitGate(min_rows=10, max_null_share={"a": 0.1})
    judged = judge(gate, commit(1, 1))
    assert words(judged) == {"min_rows": "waits", "max_null_share.a": "waits"}
    assert judge(gate, commit(1, 1), commit(9)).publishable == 2
    assert words(judge(gate, commit(1, 1), commit(8), commit(1, 1)))["max_null_share.a"] == "fails"


def test_old_rows_wait_for_newer_ones_and_rows_without_a_time_do_too() -> None:
    judged = judge(FRESH, commit(5, age_seconds=3601))
    assert (judged.publishable, words(judged)) == (None, {"freshness": "waits"})
    assert judged.verdicts["freshness"].text == "the newest at is 60 min old, at most 60 min"
    assert judge(FRESH, commit(5, age_seconds=9999), commit(1, age_seconds=3600)).publishable == 2
    assert judge(FRESH, commit(5, age_seconds=None)).verdicts["freshness"].text == "no row has a value of at"
    assert judge(FRESH, commit(0, age_seconds=None)).publishable == 1  # deletes alone are not old


def test_rows_that_nobody_judged_keep_back_what_comes_and_files_with_the_same_rows_do_not() -> None:
    judged = judge(NULLS, 7, commit(10))
    assert (judged.publishable, judged.rows, words(judged)["judged"]) == (None, 17, "fails")
    assert judge(NULLS, commit(10), 0).publishable == 2


def test_deletes_that_are_a_snapshot_of_their_own_are_published_only_with_rows_that_hold() -> None:
    gate = CommitGate(min_rows=10)
    judged = judge(gate, commit(10), None, 0, commit(4))  # e.g. a reload clears the table, or a MERGE deletes by key
    assert (judged.publishable, judged.commits, words(judged)) == (1, 3, {"min_rows": "waits"})
    assert judge(gate, commit(10), None, 0, commit(4), commit(6)).publishable == 5
    alone = judge(gate, commit(10), None)
    assert (alone.publishable, alone.commits, words(alone)) == (1, 1, {"deletes": "waits"})
    assert not alone.verdicts["deletes"].blocks


def test_a_table_without_the_columns_of_a_rule_is_published_and_the_verdict_says_so() -> None:
    gate = CommitGate(max_null_share={"b": 0.0}, time_column="at", max_age=timedelta(1))
    judged = judge(gate, Figures(at=NOW, rows=5, absent=("b", "at")))
    assert judged.publishable == 1
    assert judged.verdicts["max_null_share.b"].text == "the table has no column b"
    assert judged.verdicts["freshness"].text == "the table has no column at"


def test_rows_wait_no_longer_for_a_column_that_is_dropped() -> None:
    gate = CommitGate(min_rows=10, max_null_share={"a": 0.1}, time_column="at", max_age=timedelta(hours=1))
    assert judge(gate, commit(5, 5, age_seconds=9999), Figures(at=NOW, rows=5, absent=("a", "at"))).publishable == 2


def test_rows_whose_nulls_or_times_nobody_looked_at_are_not_published_by_themselves() -> None:
    other_rules = Figures(at=NOW, rows=5)  # of a pipeline with other rules, or of rules before they were changed
    judged = judge(NULLS, other_rules, commit(100))
    assert (judged.publishable, words(judged)) == (None, {"max_null_share.a": "fails"})
    assert judged.verdicts["max_null_share.a"].text == "NULLs of a were not counted in 5 rows"
    assert judge(NULLS, Figures(at=NOW, rows=0)).publishable == 1
    assert judge(FRESH, other_rules).publishable is None
    assert judge(FRESH, other_rules, commit(1)).publishable == 2


def test_a_time_in_the_future_is_not_old_and_is_named() -> None:
    judged = judge(FRESH, commit(5, age_seconds=-7200))
    assert judged.publishable == 1
    assert judged.verdicts["freshness"].text == "the newest at is 2 h in the future, at most 60 min"


def test_files_count_what_rules_need_and_keep_finer_metrics() -> None:
    gate = CommitGate(max_null_share={"a": 0.1, "b": 0.1}, time_column="at", max_age=timedelta(1))
    written = gate.with_metrics(
        {
            "write.metadata.metrics.default": "none",
            "write.metadata.metrics.column.b": "full",
            "write.metadata.metrics.column.at": "counts",
            "write.parquet.stats-enabled.column.a": "false",
            "write.parquet.stats-enabled.column.other": "false",
        }
    )
    assert written == {
        "write.metadata.metrics.default": "none",
        "write.metadata.metrics.column.a": "counts",
        "write.metadata.metrics.column.b": "full",
        "write.metadata.metrics.column.at": "full",
        "write.parquet.stats-enabled.column.other": "false",
    }
    assert gate.with_metrics({})["write.metadata.metrics.column.a"] == "truncate(16)"  # Iceberg's default


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.tuples(st.booleans(), st.integers(0, 7200)), max_size=6), min_size=1, max_size=8),
    st.integers(0, 8),
    st.sampled_from([0.0, 0.25, 0.5]),
)
def test_sql_over_the_rows_finds_the_same_last_snapshot(
    commits: list[list[tuple[bool, int]]], least: int, share: float
) -> None:
    gate = CommitGate(least, {"a": share}, "at", timedelta(hours=1))
    figures = [
        commit(len(rows), sum(is_null for is_null, _ in rows), min((age for _, age in rows), default=None))
        for rows in commits
    ]
    assert judge(gate, *figures).publishable == by_sql(commits, least, share)


def by_sql(commits: list[list[tuple[bool, int]]], least: int, share: float) -> int | None:
    """Walk over the commits with queries over their rows alone: where does what waits, and a group of it, end?"""
    with duckdb.connect() as database:
        database.execute("create table t (n int, a int, age int)")
        rows = [(n, None if is_null else 1, age) for n, part in enumerate(commits, 1) for is_null, age in part]
        if rows:
            database.executemany("insert into t values (?, ?, ?)", rows)

        def one(select: str, after: int, until: int) -> float:
            [[value]] = database.execute(f"select {select} from t where n > ? and n <= ?", [after, until]).fetchall()
            return value

        published = group = 0
        is_blocked = False
        for n in range(1, len(commits) + 1):
            is_enough = one("count(*)", group, n) >= least
            if is_enough:
                is_blocked |= (one("avg((a is null)::int)", group, n) or 0.0) > share
                group = n
            is_fresh = not one("count(*)", published, n) or one("min(age)", published, n) <= 3600
            if is_enough and is_fresh and not is_blocked:
                published = group = n
    return published or None
