"""Brings staged batches into a table exactly once: a compare-and-swap on the very metadata that was inspected.

What the fence relies on:
- `newTransaction()` refreshes, and `startMetadata()` is what all its updates are built on (`Attempt.java`). Looking at
  the table's handle instead would leave a gap: commits on a stale handle refresh first and succeed.
- `operations().commit(start, made)` succeeds only while the table still is `start` (on REST: while the branch still
  is), so the mark that was read there is the mark that is replaced.
- The mark, `calve.mark.<pipeline>` among the table's properties, always travels in one commit with a snapshot. It
  outlives `expire_snapshots` and a rollback. It says up to which batch the table has this pipeline's files.
- A pipeline's batches are committed in order, and a staged batch never changes; so whatever is behind the mark is
  there, and an attempt whose answer never came may be repeated after another look.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from py4j.protocol import Py4JJavaError

from calve.catalog.attempt import Attempt
from calve.catalog.catalog import Catalog
from calve.catalog.retry import retried
from calve.commit.merge import merge_changes
from calve.commit.specs import hold_everywhere, need_free_spec
from calve.commit.swap import swap
from calve.engine.jvm import java_errors, unforeseen_errors
from calve.errors import (
    CommitError,
    InvariantError,
    OvertakenError,
)
from calve.record.content_file import ContentFile
from calve.record.target import EQUALITY_DELETE, WriteMode
from calve.stop_point import meet
from calve.table.loaded import MARK, Table

__all__ = ["CommitTarget", "Lose", "Mark", "Outcome", "append", "rehearse"]

Lose = Callable[[int, Sequence[bytes]], None]
"""Keeps dead letters of a batch, as lines of JSON, in place of those that it was told before."""

_STEP = "commit"
_REJECTED = "calve.rejected"
_WHO = ("calve.pipeline", "calve.state")


@dataclass(frozen=True)
class CommitTarget:
    """Where batches go.

    Attributes:
        identifier: Namespace and name of the table, joined by dots.
        uuid: The UUID of the table that the files were written for; empty: any.
        branch: The branch that gets the snapshot. If there is none it begins where `main` is, in the same commit; in a
            table without a snapshot it begins empty, and `main` stays without one.
        write_mode: How equality deletes among the files reach the table: as they are, or as what Spark makes of them.
    """

    identifier: str
    uuid: str = ""
    branch: str = "main"
    write_mode: WriteMode = EQUALITY_DELETE


@dataclass(frozen=True)
class Mark:
    """Who commits.

    Attributes:
        pipeline: The pipeline's name.
        state_id: The identity of its ledger.
        batch: The last batch that this ledger has staged; a table that has a later one knows another driver.
    """

    pipeline: str
    state_id: str
    batch: int

    def key(self, branch: str) -> str:
        """Return the table property that holds the mark."""
        return f"{MARK}{self.pipeline}" + ("" if branch == "main" else f"@{branch}")


@dataclass(frozen=True)
class Outcome:
    """What became of the batches; "already committed" is an outcome, not an error.

    Attributes:
        batches: Those that this call committed, in order; empty when the table had all of them.
        snapshot_id: The snapshot with them; None when there is none.
        files: How many files it added.
        rows: How many rows it added.
        equality_deletes: How many rows the equality deletes of the branch have then.
        delete_files: How many delete files of all kinds it has then.
        began: Whether the branch had no rows before, as neither it nor the table had a snapshot.
        table: The table after this commit; None when the table had everything before.
    """

    batches: tuple[int, ...] = ()
    snapshot_id: int | None = None
    files: int = 0
    rows: int = 0
    equality_deletes: int = 0
    delete_files: int = 0
    began: bool = False
    table: Table | None = None

    @property
    def already(self) -> bool:
        """Whether the table had everything before."""
        return not self.batches


class _Told(NamedTuple):
    """What a commit says, and whom it tells what it leaves out."""

    summary: dict[str, str]
    lose: Lose
    is_rehearsal: bool = False


def append(
    catalog: Catalog,
    target: CommitTarget,
    mark: Mark,
    files: Mapping[int, Sequence[ContentFile]],
    summary: Mapping[str, str] | None = None,
    lose: Lose | None = None,
) -> Outcome:
    """Bring the files of staged batches into a table in one commit, however often it is called.

    Appends make one snapshot. With deletes among the files each batch has its own, in order.

    Args:
        catalog: Where the table is.
        target: The table and its branch.
        mark: Who commits.
        files: The files of each batch; a path that appears twice is added once.
        summary: What the snapshot's summary says beside `calve.pipeline`, `calve.state` and `calve.batch`; of several
            the last one's, because it is true of all batches together.
        lose: Is told of each batch, with every attempt and before it counts, the dead letters of events that turned
            out to be no rows; often there are none. Without it there must be none.

    Raises:
        OvertakenError: Another state has committed under this pipeline's name, or this one is behind itself.
        CommitError: The table is another one than the files were written for, or refuses them.
        CommitConflictError: Other writers were faster every time.
        CommitUnknownError: The answer never came; repeat the call.
        SinkUnavailableError: The catalog does not answer.
    """
    told = _Told(dict(summary or {}), lose or _refuse)
    return retried(lambda: _attempt(catalog, target, mark, files, told))


def rehearse(catalog: Catalog, target: CommitTarget, mark: Mark, files: Mapping[int, Sequence[ContentFile]]) -> None:
    """Do what `append` does, but for making it visible.

    Raises:
        UnprocessableError: The files cannot become a snapshot.
        CalveError: As `append`.
    """
    retried(lambda: _attempt(catalog, target, mark, files, _Told({}, lambda *_: None, is_rehearsal=True)))


def _attempt(
    catalog: Catalog,
    target: CommitTarget,
    mark: Mark,
    files: Mapping[int, Sequence[ContentFile]],
    told: _Told,
) -> Outcome:
    begun = catalog.begin(target.identifier)
    key = mark.key(target.branch)
    with java_errors(_STEP, target.identifier):
        found = begun.look(target.branch, key)
        _check_same_table(target, found.uuid)
        _check_branch(target, found.is_tag)
        reached = _read_mark(found.mark, target, mark)
        batches = tuple(sorted(batch for batch in files if batch > reached and files[batch]))
        if not batches:
            return Outcome()
        merges = target.write_mode != EQUALITY_DELETE
        whole = [file for batch in batches for file in files[batch] if file.is_data or not merges]
        if need_free_spec(found.specs, whole):
            catalog.add_free_spec(target.identifier)
            return _attempt(catalog, target, mark, files, told)
        files = {batch: hold_everywhere(found.specs, files[batch]) for batch in batches}
        began = found.is_empty and not found.has_branch
        needless = _needless_deletes(files) if began and not merges else set()
        files = {batch: [file for file in files[batch] if file.file_path not in needless] for batch in batches}
        added = {file.file_path: file for batch in batches for file in files[batch]}
        who = {
            "calve.pipeline": mark.pipeline,
            "calve.state": mark.state_id,
            "calve.batch": str(batches[-1]),
        }
        if all(file.is_data for file in added.values()):
            _stage(catalog, begun, target, list(added.values()), told.summary | who)
        else:
            _stage_each(catalog, begun, target, files, told._replace(summary=told.summary | who))
        if told.is_rehearsal:
            return Outcome()
        text = json.dumps({"state": mark.state_id, "batch": batches[-1]})
        swapped = swap(begun, target.branch, (key, text))
        _remove_files(begun, _deletes(added.values()) if merges else needless)
    rows = sum(file.record_count for file in added.values() if file.is_data)
    equality_deletes, delete_files = (
        int(swapped.summary.get(f"total-{what}") or 0) for what in ("equality-deletes", "delete-files")
    )
    return Outcome(batches, swapped.snapshot_id, len(added), rows, equality_deletes, delete_files, began, swapped.table)


def _stage_each(
    catalog: Catalog, begun: Attempt, target: CommitTarget, files: Mapping[int, Sequence[ContentFile]], told: _Told
) -> None:
    """Add batches one by one: an equality delete holds for rows of earlier snapshots only."""
    lost, last = 0, max(files)
    for batch, own in files.items():
        summary = {key: value for key, value in told.summary.items() if batch == last or key in _WHO}
        letters = _stage(catalog, begun, target, own, summary | {"calve.batch": str(batch)}, lost)
        told.lose(batch, letters)
        lost += len(letters)


def _check_same_table(target: CommitTarget, uuid: str) -> None:
    if target.uuid and uuid != target.uuid:
        raise CommitError(
            f"The table {target.identifier} was dropped and created again, and the staged files are of the old one",
            step=_STEP,
            target=target.identifier,
            hint="Bring the old table back, or remove the pipeline's state folder to start anew with this one",
        )


def _check_branch(target: CommitTarget, is_tag: bool) -> None:
    if is_tag:
        raise CommitError(
            f"The table {target.identifier} has a tag {target.branch!r}, so there can be no branch of that name",
            step=_STEP,
            target=target.identifier,
            hint="Drop or rename the tag, and the staged files are committed",
        )


def _read_mark(text: str | None, target: CommitTarget, mark: Mark) -> int:
    """Return the last batch of this pipeline that the table has, 0 for none."""
    if text is None:
        return 0
    found = json.loads(text)
    if found["state"] != mark.state_id:
        raise OvertakenError(
            f"The table {target.identifier} has batches of a pipeline {mark.pipeline!r} from another state folder",
            step=_STEP,
            target=target.identifier,
            hint="Run with that state folder, or give this pipeline another name. If that state is gone for good, "
            "`calve state rebuild` makes it anew from what the tables tell; removing the table property "
            f"{mark.key(target.branch)} would read the source from its beginning, and double the rows",
        )
    reached: int = found["batch"]
    if reached > mark.batch:
        raise OvertakenError(
            f"The table {target.identifier} has batch {reached} of {mark.pipeline!r}; this state ends at {mark.batch}",
            step=_STEP,
            target=target.identifier,
            hint="Another driver ran with a copy of this state folder: stop this one, and go on with the newer state",
        )
    return reached


def _stage(
    catalog: Catalog,
    begun: Attempt,
    target: CommitTarget,
    files: Sequence[ContentFile],
    summary: Mapping[str, str],
    lost_before: int = 0,
) -> list[bytes]:
    """Add the files of one batch to an attempt: deletes first, as they hold for earlier rows.

    The dead letters of this batch, and those of earlier batches in the same commit (`lost_before`), are added to the
    number in `calve.rejected`.

    Returns:
        The dead letters of events that turned out to be no rows.

    Raises:
        UnprocessableError: The files cannot become a snapshot; their events may be the reason.
    """
    lost: list[bytes] = []
    deletes = [file for file in files if not file.is_data]
    with unforeseen_errors(_STEP, target.identifier):
        meet("commit.stage", lambda: [file.file_path for file in files])
        if deletes and target.write_mode != EQUALITY_DELETE:
            lost = merge_changes(catalog, begun.transaction, target.branch, target.write_mode, deletes)
            files, deletes = [file for file in files if file.is_data], []
        counted = {
            key: str(int(value) + lost_before + len(lost)) if key == _REJECTED else value
            for key, value in summary.items()
        }
        stage = begun.change if deletes else begun.append
        stage(target.branch, files, counted)
    return lost


def _deletes(files: Iterable[ContentFile]) -> list[str]:
    """Return the paths of the delete files."""
    return [file.file_path for file in files if not file.is_data]


def _needless_deletes(files: Mapping[int, Sequence[ContentFile]]) -> set[str]:
    """Return the equality deletes that match no row, as the branch begins with these batches (paths).

    They hold for rows of earlier snapshots only, and before the first batch with rows there are none. Without them
    PyIceberg, which refuses equality deletes, reads a table after its first load.
    """
    found: set[str] = set()
    for batch in files.values():
        deletes = _deletes(batch)
        found.update(deletes)
        if len(deletes) < len(batch):
            break
    return found


def _refuse(batch: int, letters: Sequence[bytes]) -> None:
    """Lose nothing.

    Raises:
        InvariantError: There is something to lose.
    """
    if letters:
        raise InvariantError(f"{len(letters)} events of batch {batch} are no rows, and have no place to go", step=_STEP)


def _remove_files(begun: Attempt, paths: Collection[str]) -> None:
    """Delete staged files that no snapshot has: their keys were merged, or no row has them."""
    if not paths:
        return
    io = begun.table.io()
    for path in paths:
        with contextlib.suppress(Py4JJavaError):
            io.deleteFile(path)
