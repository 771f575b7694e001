"""The fence holds against every way in which a commit can be lost, repeated or overtaken."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from calve.commit.fence import append, invalidate_open_attempts
from calve.commit.mark import CommitTarget, Mark
from calve.errors import CommitError, CommitUnknownError, NoTargetError, OvertakenError, UnprocessableError, Verdict
from calve.record.content_file import ContentFile

pytestmark = pytest.mark.spark


def mark(batch: int, pipeline: str = "shop", state: str = "state-1") -> Mark:
    return Mark(pipeline, state, batch)


def equality_deletes(lake: Any, name: str, ids: list[int]) -> ContentFile:
    return structs.replace(lake.file(name, ids), content="EQUALITY_DELETES", equality_ids=[1])


@pytest.fixture
def at_point(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[], Any]], None]:
    """Do something, once, when the fence reaches a named point."""

    def arrange(point: str, action: Callable[[], Any]) -> None:
        waiting = [action]

        def reach(reached: str) -> None:
            if reached == point and waiting:
                waiting.pop()()

        monkeypatch.setattr("calve.commit.swap.stop_at", reach)

    return arrange


def test_a_batch_committed_twice_appears_once(lake: Any) -> None:
    files = {1: [lake.file("a", [1, 2])]}
    first = append(lake.catalog, CommitTarget(lake.name), mark(1), files)
    again = append(lake.catalog, CommitTarget(lake.name), mark(1), files)
    assert (first.batches, first.rows, first.files) == ((1,), 2, 1)
    assert again.already
    assert lake.ids() == [1, 2]


def test_staged_batches_land_in_one_snapshot_that_says_whose_they_are(lake: Any) -> None:
    files = {3: [lake.file("c", [3])], 2: [lake.file("b", [2])]}
    outcome = append(lake.catalog, CommitTarget(lake.name), mark(3), files, {"calve.offsets": '{"0":9}'})
    assert outcome.batches == (2, 3)
    summary = lake.summary()
    told = ("shop", "state-1", "3")
    assert (summary["calve.pipeline"], summary["calve.state"], summary["calve.batch"]) == told
    assert summary["calve.offsets"] == '{"0":9}'
    assert lake.java.currentSnapshot().snapshotId() == outcome.snapshot_id
    assert len(list(lake.java.snapshots())) == 1


def test_of_several_snapshots_of_a_commit_the_last_one_tells_how_far_all_of_them_come(lake: Any) -> None:
    deletes = equality_deletes(lake, "d", [1])
    files = {1: [lake.file("a", [1])], 2: [deletes, lake.file("b", [2])]}
    append(lake.catalog, CommitTarget(lake.name), mark(2), files, {"calve.valid-through": "2026"})
    told = [dict(snapshot.summary()) for snapshot in lake.java.snapshots()]
    assert [(one["calve.batch"], one.get("calve.valid-through")) for one in told] == [("1", None), ("2", "2026")]


@pytest.mark.parametrize("branch", ["main", "b"])
def test_deletes_before_the_first_rows_of_a_table_are_left_out_and_later_ones_are_not(lake: Any, branch: str) -> None:
    early, first, later = (equality_deletes(lake, name, [1]) for name in ("early", "first", "later"))
    files = {1: [early], 2: [first, lake.file("a", [1])], 3: [later, lake.file("b", [1, 2])]}
    outcome = append(lake.catalog, CommitTarget(lake.name, branch=branch), mark(3), files)
    assert outcome.began
    assert outcome.equality_deletes == 1
    assert [Path(one.file_path).exists() for one in (early, first, later)] == [False, False, True]


def test_deletes_of_a_branch_that_begins_with_the_rows_of_main_are_kept(lake: Any) -> None:
    append(lake.catalog, CommitTarget(lake.name), mark(1), {1: [lake.file("a", [1])]})
    files = {2: [equality_deletes(lake, "d", [1]), lake.file("b", [1])]}
    outcome = append(lake.catalog, CommitTarget(lake.name, branch="b"), mark(2), files)
    assert not outcome.began
    assert outcome.equality_deletes == 1


def test_batches_behind_the_mark_are_skipped_and_the_rest_is_committed(lake: Any) -> None:
    one, two = lake.file("a", [1]), lake.file("b", [2])
    append(lake.catalog, CommitTarget(lake.name), mark(1), {1: [one]})
    outcome = append(lake.catalog, CommitTarget(lake.name), mark(2), {1: [one], 2: [two]})
    assert outcome.batches == (2,)
    assert lake.ids() == [1, 2]


def test_a_file_given_twice_is_added_once(lake: Any) -> None:
    file = lake.file("a", [1])
    append(lake.catalog, CommitTarget(lake.name), mark(2), {1: [file, file], 2: [file]})
    assert lake.ids() == [1]


def test_nothing_to_add_makes_no_snapshot(lake: Any) -> None:
    assert append(lake.catalog, CommitTarget(lake.name), mark(1), {1: []}).already
    assert lake.java.currentSnapshot() is None


def test_another_state_under_the_same_name_is_refused(lake: Any) -> None:
    append(lake.catalog, CommitTarget(lake.name), mark(1), {1: [lake.file("a", [1])]})
    with pytest.raises(OvertakenError, match="another state folder") as refused:
        append(lake.catalog, CommitTarget(lake.name), mark(2, state="state-2"), {2: [lake.file("b", [2])]})
    assert "calve.mark.shop" in refused.value.hint
    assert lake.ids() == [1]


def test_a_driver_that_was_overtaken_is_refused(lake: Any) -> None:
    append(lake.catalog, CommitTarget(lake.name), mark(5), {5: [lake.file("a", [1])]})
    with pytest.raises(OvertakenError, match="has batch 5"):
        append(lake.catalog, CommitTarget(lake.name), mark(4), {4: [lake.file("b", [2])]})
    assert lake.ids() == [1]


@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_table_that_was_dropped_and_created_again_is_held(lake: Any, schema_json: str, is_loaded: bool) -> None:
    """Also one that was just loaded, with which the next attempt begins."""
    uuid, java = lake.table.uuid, lake.catalog._identifier(lake.name)
    for expected, message in ((NoTargetError, "does not exist"), (CommitError, "created again")):
        if is_loaded:
            lake.catalog.load(lake.name)
        lake.catalog._java.dropTable(java, False)
        if expected is CommitError:
            lake.catalog.create(lake.name, schema_json)
        with pytest.raises(expected, match=message) as held:
            append(lake.catalog, CommitTarget(lake.name, uuid), mark(1), {1: [lake.file("a", [1])]})
        lake.catalog.create(lake.name, schema_json) if expected is NoTargetError else None
    assert held.value.verdict is Verdict.ASK


def test_an_attempt_on_a_loaded_table_builds_on_what_others_committed_meanwhile(lake: Any) -> None:
    lake.catalog.load(lake.name)
    lake.java.updateProperties().set("owner", "me").commit()
    assert append(lake.catalog, CommitTarget(lake.name), mark(1), {1: [lake.file("a", [1])]}).rows == 1
    assert lake.catalog.load(lake.name).properties["owner"] == "me"
    assert append(lake.catalog, CommitTarget(lake.name), mark(1), {1: [lake.file("a", [1])]}).already
    assert lake.ids() == [1]


def test_pipelines_on_one_table_do_not_see_each_other(lake: Any) -> None:
    append(lake.catalog, CommitTarget(lake.name), mark(9, "shop"), {9: [lake.file("a", [1])]})
    append(lake.catalog, CommitTarget(lake.name), mark(1, "till", "state-2"), {1: [lake.file("b", [2])]})
    assert lake.ids() == [1, 2]


def test_a_zombie_that_commits_the_same_batch_between_look_and_swap_adds_nothing_twice(
    lake: Any, at_point: Any
) -> None:
    files = {1: [lake.file("a", [1])]}
    at_point("commit.before-swap", lambda: append(lake.catalog, CommitTarget(lake.name), mark(1), files))
    outcome = append(lake.catalog, CommitTarget(lake.name), mark(1), files)
    assert outcome.already
    assert lake.ids() == [1]


def test_another_writer_between_look_and_swap_costs_one_more_attempt(lake: Any, at_point: Any) -> None:
    other = {1: [lake.file("b", [2])]}
    at_point("commit.before-swap", lambda: append(lake.catalog, CommitTarget(lake.name), mark(1, "till"), other))
    outcome = append(lake.catalog, CommitTarget(lake.name), mark(1), {1: [lake.file("a", [1])]})
    assert outcome.batches == (1,)
    assert lake.ids() == [1, 2]


def test_a_refused_attempt_leaves_no_manifest_behind(lake: Any, at_point: Any) -> None:
    other = {1: [lake.file("b", [2])]}
    at_point("commit.before-swap", lambda: append(lake.catalog, CommitTarget(lake.name), mark(1, "till"), other))
    append(lake.catalog, CommitTarget(lake.name), mark(1), {1: [lake.file("a", [1])]})
    assert len(lake.manifests()) == 2 + 2  # of each of the two commits a manifest and a manifest list


def test_a_compaction_between_look_and_swap_loses_nothing(lake: Any, at_point: Any) -> None:
    append(lake.catalog, CommitTarget(lake.name), mark(1), {1: [lake.file("a", [1])]})
    at_point("commit.before-swap", lambda: compact(lake))
    append(lake.catalog, CommitTarget(lake.name), mark(2), {2: [lake.file("b", [2])]})
    assert append(lake.catalog, CommitTarget(lake.name), mark(2), {1: [lake.file("a", [1])]}).already
    assert lake.ids() == [1, 2]


def compact(lake: Any) -> None:
    rewrite = lake.java.newRewrite()
    old = lake.java.newScan().planFiles().iterator().next().file()
    parser, mapper = lake.catalog._iceberg.ContentFileParser, lake.catalog._iceberg.util.JsonUtil.mapper()
    new = parser.fromJson(mapper.readTree(msgspec.json.encode(lake.file("compacted", [1])).decode()), lake.java.specs())
    rewrite.deleteFile(old).addFile(new).commit()


def test_an_answer_that_never_came_is_looked_up_and_not_repeated(lake: Any, at_point: Any) -> None:
    at_point("commit.after-swap", raise_unknown)
    outcome = append(lake.catalog, CommitTarget(lake.name), mark(1), {1: [lake.file("a", [1])]})
    assert outcome.already
    assert lake.ids() == [1]


def test_a_commit_that_never_arrived_is_repeated(lake: Any, at_point: Any) -> None:
    at_point("commit.before-swap", raise_unknown)
    assert append(lake.catalog, CommitTarget(lake.name), mark(1), {1: [lake.file("a", [1])]}).batches == (1,)
    assert lake.ids() == [1]


@pytest.mark.parametrize("reached", [0, 1])
def test_an_attempt_that_began_before_it_was_forestalled_fails_and_asks_who_owns_the_ledger(
    lake: Any, at_point: Any, reached: int
) -> None:
    if reached:
        append(lake.catalog, CommitTarget(lake.name), mark(1), {1: [lake.file("a", [1])]})
    owners = iter([True, False])

    def confirm(_: float) -> None:
        if not next(owners):
            raise OvertakenError("another driver owns it")

    at_point(
        "commit.before-swap",
        lambda: told.append(invalidate_open_attempts(lake.catalog, CommitTarget(lake.name), mark(2))),
    )
    told: list[int] = []
    with pytest.raises(OvertakenError, match="another driver"):
        append(lake.catalog, CommitTarget(lake.name), replace(mark(2), confirm=confirm), {2: [lake.file("b", [2])]})
    assert (told, lake.ids()) == ([reached], [1][:reached])
    append(lake.catalog, CommitTarget(lake.name), mark(2), {2: [lake.file("c", [3])]})
    assert lake.ids() == [1, 3][1 - reached :]


def raise_unknown() -> None:
    raise CommitUnknownError("the answer never came")


def test_the_mark_outlives_its_snapshot(lake: Any) -> None:
    files = {batch: [lake.file(f"f{batch}", [batch])] for batch in (1, 2, 3)}
    for batch in files:
        append(lake.catalog, CommitTarget(lake.name), mark(batch), {batch: files[batch]})
    lake.java.expireSnapshots().expireOlderThan(int(time.time() * 1000) + 60_000).retainLast(1).commit()
    assert len(list(lake.java.snapshots())) == 1
    assert append(lake.catalog, CommitTarget(lake.name), mark(3), files).already
    assert lake.ids() == [1, 2, 3]


def test_a_rollback_of_the_table_is_not_undone(lake: Any) -> None:
    files = {batch: [lake.file(f"f{batch}", [batch])] for batch in (1, 2)}
    first = append(lake.catalog, CommitTarget(lake.name), mark(1), {1: files[1]})
    append(lake.catalog, CommitTarget(lake.name), mark(2), {2: files[2]})
    lake.java.manageSnapshots().rollbackTo(first.snapshot_id).commit()
    assert append(lake.catalog, CommitTarget(lake.name), mark(2), files).already
    append(lake.catalog, CommitTarget(lake.name), mark(3), {3: [lake.file("f3", [3])]})
    assert lake.ids() == [1, 3]


def test_a_branch_has_a_mark_of_its_own(lake: Any) -> None:
    files = {1: [lake.file("a", [1])]}
    append(lake.catalog, CommitTarget(lake.name), mark(1), files)
    lake.java.manageSnapshots().createBranch("audit").commit()
    more = {2: [lake.file("b", [2])]}
    assert append(lake.catalog, CommitTarget(lake.name, branch="audit"), mark(2), more).batches == (2,)
    assert append(lake.catalog, CommitTarget(lake.name, branch="audit"), mark(2), more).already
    assert (lake.ids(), lake.ids("audit")) == ([1], [1, 2])


def test_a_branch_that_is_missing_begins_where_main_is(lake: Any) -> None:
    append(lake.catalog, CommitTarget(lake.name), mark(1), {1: [lake.file("a", [1])]})
    audit = CommitTarget(lake.name, branch="audit")
    more = {2: [lake.file("b", [2])]}
    assert append(lake.catalog, audit, mark(2), more).batches == (2,)
    assert append(lake.catalog, audit, mark(2), more).already
    append(lake.catalog, CommitTarget(lake.name), mark(3), {3: [lake.file("c", [3])]})
    append(lake.catalog, audit, mark(4), {4: [lake.file("d", [4])]})
    assert (lake.ids(), lake.ids("audit")) == ([1, 3], [1, 2, 4])


def test_a_branch_of_an_empty_table_leaves_main_without_a_snapshot(lake: Any) -> None:
    audit = CommitTarget(lake.name, branch="audit")
    for batch in (1, 2):
        append(lake.catalog, audit, mark(batch), {batch: [lake.file(f"f{batch}", [batch])]})
    assert lake.java.currentSnapshot() is None
    assert (lake.ids(), lake.ids("audit")) == ([], [1, 2])


def test_a_branch_that_was_dropped_begins_anew_without_what_it_had(lake: Any) -> None:
    audit = CommitTarget(lake.name, branch="audit")
    append(lake.catalog, CommitTarget(lake.name), mark(1), {1: [lake.file("a", [1])]})
    append(lake.catalog, audit, mark(2), {2: [lake.file("b", [2])]})
    lake.java.manageSnapshots().removeBranch("audit").commit()
    append(lake.catalog, audit, mark(3), {3: [lake.file("c", [3])]})
    assert lake.ids("audit") == [1, 3]


def test_of_two_drivers_that_make_a_branch_one_is_refused_and_looks_again(lake: Any, at_point: Any) -> None:
    files, audit = {1: [lake.file("a", [1])]}, CommitTarget(lake.name, branch="audit")
    at_point("commit.before-swap", lambda: append(lake.catalog, audit, mark(1), files))
    assert append(lake.catalog, audit, mark(1), files).already
    assert lake.ids("audit") == [1]


def test_a_tag_of_a_branchs_name_is_told_and_the_files_wait(lake: Any) -> None:
    audit = CommitTarget(lake.name, branch="audit")
    first = append(lake.catalog, CommitTarget(lake.name), mark(1), {1: [lake.file("a", [1])]})
    lake.java.manageSnapshots().createTag("audit", first.snapshot_id).commit()
    more = {2: [lake.file("b", [2])]}
    with pytest.raises(CommitError, match="has a tag 'audit', so it cannot have a branch") as told:
        append(lake.catalog, audit, mark(2), more)
    assert told.value.verdict is Verdict.ASK
    lake.java.manageSnapshots().removeTag("audit").commit()
    append(lake.catalog, audit, mark(2), more)
    assert (lake.ids(), lake.ids("audit")) == ([1], [1, 2])


def test_writers_side_by_side_lose_and_double_nothing(lake: Any) -> None:
    pipelines, batches = 3, 4

    def write(number: int) -> None:
        for batch in range(1, batches + 1):
            files = {batch: [lake.file(f"p{number}-{batch}", [number * 100 + batch])]}
            append(lake.catalog, CommitTarget(lake.name), mark(batch, f"p{number}"), files)
            append(lake.catalog, CommitTarget(lake.name), mark(batch, f"p{number}"), files)

    with ThreadPoolExecutor(pipelines) as pool:
        list(pool.map(write, range(pipelines)))
    assert lake.ids() == [number * 100 + batch for number in range(pipelines) for batch in range(1, batches + 1)]


def test_a_thousand_files_go_in_at_once(lake: Any) -> None:
    file = lake.file("a", [1])
    files = [structs.replace(file, file_path=f"{file.file_path}.{number}") for number in range(1000)]
    assert append(lake.catalog, CommitTarget(lake.name), mark(1), {1: files}).files == 1000
    assert lake.summary()["added-data-files"] == "1000"


def test_a_commit_takes_few_calls_to_the_jvm_and_tells_the_table_that_it_left(
    lake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.catalog.prepare()
    client, calls = type(lake.catalog._jvm._gateway_client), []
    send = client.send_command

    def counted(self: Any, command: str, *arguments: Any, **named: Any) -> Any:
        calls.append(command)
        return send(self, command, *arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(client, "send_command", counted)
        outcome = append(lake.catalog, CommitTarget(lake.name), mark(1), {1: [lake.file("a", [1])]})
    made = [command for command in calls if command.startswith("c\n")]  # others let go of Java's objects
    assert len(made) <= 5, made
    assert replace(lake.catalog.load(lake.name), metadata_location="") == outcome.table


def test_a_file_that_the_table_cannot_have_is_an_error_of_the_tree(lake: Any) -> None:
    file = structs.replace(lake.file("a", [1]), partition=[1], spec_id=7)
    with pytest.raises(UnprocessableError):
        append(lake.catalog, CommitTarget(lake.name), mark(1), {1: [file]})
    assert lake.ids() == []
