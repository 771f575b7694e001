"""Brings staged batches into a table exactly once: a compare-and-swap on the very metadata that was inspected.

What the fence relies on:
- `newTransaction()` refreshes, and all its updates are based on `startMetadata()` (`Attempt.java`). The metadata of
  the table's handle would leave a gap: a commit on a stale handle refreshes first and succeeds.
- `operations().commit(start, made)` succeeds only if the table still is `start` (on REST: if the branch still is), so
  it replaces exactly the mark that was read.
- The mark, the table property `calve.mark.<pipeline>`, is the last batch of this pipeline in the table. It always
  changes in the same commit that adds a snapshot, and survives `expire_snapshots` and a rollback.
- A pipeline's batches are committed in order, and a staged batch never changes while an attempt with it may succeed
  (`invalidate_open_attempts`). So all batches up to the mark are in the table, and an attempt without an answer may
  be repeated after the mark is read again.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from py4j.protocol import Py4JJavaError

from calve.catalog.attempt import Attempt, InspectedTable
from calve.catalog.catalog import Catalog
from calve.catalog.retry import Retries, retried
from calve.commit.mark import CommitTarget, Mark
from calve.commit.outcome import Outcome, joined, outcome
from calve.commit.publish import Publishing, follow_main
from calve.commit.specs import make_global, need_unpartitioned_spec
from calve.commit.stage import CommitHooks, Lose, Report, refuse, stage
from calve.commit.swap import swap
from calve.engine.java.errors import java_errors
from calve.errors import CommitConflictError, CommitError
from calve.record.content_file import ContentFile
from calve.record.target import EQUALITY_DELETE

__all__ = ["Lose", "append", "clear", "inspect", "invalidate_open_attempts", "snapshot_of", "validate_files"]

_STEP = "commit"
_Files = Mapping[int, Sequence[ContentFile]]
"""Staged files by batch."""


def append(
    catalog: Catalog,
    target: CommitTarget,
    mark: Mark,
    files: Mapping[int, Sequence[ContentFile]],
    summary: Mapping[str, str] | None = None,
    hooks: CommitHooks | None = None,
) -> Outcome:
    """Commit the files of staged batches to a table at once, and exactly once however often it is called.

    Appends, and deletes by position, make one snapshot. Other deletes make one for each batch, in order. An attempt
    that merges takes only batches for some seconds, and half as many after each conflict; further ones take the rest.

    Args:
        catalog: Where the table is.
        target: The table and its branch.
        mark: Who commits.
        files: The files of each batch; a path that appears twice is added once.
        summary: Added to the snapshot's summary, beside `calve.pipeline`, `calve.state` and `calve.batch`. Of several
            snapshots only the last one gets it, because it describes all batches together.
        hooks: Without them events that turn out not to be rows are an error.

    Raises:
        OvertakenError: Another state has committed under this pipeline's name, or a newer copy of this one.
        CommitError: The files were written for another table, or this table refuses them.
        CommitConflictError: Other writers were faster every time.
        CommitUnknownError: The catalog's answer is lost; repeat the call.
        SinkUnavailableError: The catalog does not answer.
    """
    lose, retries = hooks or CommitHooks(refuse, Retries())
    report, most = Report(dict(summary or {}), lose, {}, retries), len(files)

    def attempt() -> Outcome:
        nonlocal most
        try:
            return _attempt(catalog, target, mark, files, report, most)
        except CommitConflictError:
            most = max(1, most // 2)
            raise

    done = [retried(attempt, report.retries)]
    while not done[-1].is_all:
        done.append(retried(attempt, report.retries))
    return joined(done)


def validate_files(
    catalog: Catalog, target: CommitTarget, mark: Mark, files: Mapping[int, Sequence[ContentFile]]
) -> None:
    """Do the same as `append`, without the last step that makes it visible.

    Raises:
        UnprocessableError: The files cannot become a snapshot.
        CalveError: As `append`.
    """
    retried(
        lambda: _attempt(catalog, target, mark, files, Report({}, lambda *_: None, {}, Retries(), validates_only=True))
    )


def invalidate_open_attempts(catalog: Catalog, target: CommitTarget, mark: Mark) -> int:
    """Commit an empty snapshot: attempts that inspected the table before it can no longer succeed.

    They may be a former driver's, or this one's whose answer was lost. After this call the files of batches that the
    table does not have may be replaced.

    Returns:
        The last batch of this pipeline in the table, 0 for none.

    Raises:
        CalveError: As `append`.
    """
    return retried(lambda: _append_nothing(catalog, target, mark))


def _append_nothing(catalog: Catalog, target: CommitTarget, mark: Mark) -> int:
    begun = catalog.begin(target.identifier)
    with catalog.steady.commits(lambda: begun.table), java_errors(_STEP, target.identifier):
        _, reached = inspect(begun, target, mark)
        begun.append(target.branch, [], mark.summary(reached))
        swap(begun, target.branch, (mark.key(target.branch), mark.text(reached)))
    return reached


def clear(catalog: Catalog, target: CommitTarget, mark: Mark) -> None:
    """Remove all rows of a table's branch; may be repeated safely. Its batches count as committed as before.

    Raises:
        CalveError: As `append`.
    """
    retried(lambda: _clear(catalog, target, mark))


def _clear(catalog: Catalog, target: CommitTarget, mark: Mark) -> None:
    begun = catalog.begin(target.identifier)
    with catalog.steady.commits(lambda: begun.table), java_errors(_STEP, target.identifier):
        state, reached = inspect(begun, target, mark)
        if _is_new(state):
            return
        begun.clear(target.branch, mark.summary(reached))
        swap(begun, target.branch, (mark.key(target.branch), mark.text(reached)))


def snapshot_of(catalog: Catalog, target: CommitTarget, pipeline: str, batch: int) -> int | None:
    """Return the snapshot that ends with a batch of a pipeline, or None if it has expired.

    Raises:
        CalveError: The catalog does not answer.
    """
    table = catalog.load_java(target.identifier)
    with java_errors(_STEP, target.identifier):
        for snapshot in reversed(list(table.snapshots())):
            summary = snapshot.summary()
            if (summary.get("calve.pipeline"), summary.get("calve.batch")) == (pipeline, str(batch)):
                return int(snapshot.snapshotId())
    return None


def inspect(begun: Attempt, target: CommitTarget, mark: Mark) -> tuple[InspectedTable, int]:
    """Inspect a table; return also the last batch of this pipeline in it. A branch that is published follows `main`.

    Raises:
        CommitError: It is another table by now, or a tag has the name of the branch.
        OvertakenError: Another state has committed under this pipeline's name.
    """
    state = begun.inspect(target.branch, mark.key(target.branch))
    _check_same_table(target, state.uuid)
    _check_branch(target, state.is_tag)
    reached = mark.read(state.mark, target)
    mark.confirm(time.monotonic())
    if target.gate:
        follow_main(begun, target.branch)
    return state, reached


def _attempt(
    catalog: Catalog,
    target: CommitTarget,
    mark: Mark,
    files: Mapping[int, Sequence[ContentFile]],
    report: Report,
    most: int | None = None,
) -> Outcome:
    begun = catalog.begin(target.identifier)
    with catalog.steady.commits(lambda: begun.table), java_errors(_STEP, target.identifier):
        state, reached = inspect(begun, target, mark)
        report.retries.follow(state.properties)
        chosen = _choose(target, files, reached, most)
        if not chosen.files:
            return Outcome()
        if need_unpartitioned_spec(state.specs, chosen.committed):
            catalog.add_unpartitioned_spec(target.identifier)
            return _attempt(catalog, target, mark, files, report, most)
        adapted, needless = _adapt(target, state, chosen.files)
        whole = report.summary if chosen.is_all else {}
        publishing = Publishing(begun, target.branch, target.gate) if target.gate else None
        judge = publishing.summary if publishing else report.judge
        own = report._replace(summary=whole | mark.summary(chosen.last), judge=judge)
        batches = stage(catalog, begun, target, adapted, own)
        if report.validates_only:
            begun.discard()
            return Outcome()
        publication = publishing.publish() if publishing else None
        swapped = swap(begun, target.branch, (mark.key(target.branch), mark.text(batches[-1])))
        added = {file.file_path: file for batch in batches for file in adapted[batch]}.values()
        _remove_files(begun, {*(_deletes(added) if chosen.merges else needless), *begun.superseded})
    committed = outcome(batches, added, swapped, began=_is_new(state))
    return replace(committed, is_all=batches == chosen.waiting, publication=publication)


class _Choice(NamedTuple):
    """What one attempt commits.

    Attributes:
        waiting: The batches that the table does not have yet.
        files: The files of those that the attempt takes.
        merges: Whether deletes are merged, and so never become a part of the table.
    """

    waiting: tuple[int, ...]
    files: _Files
    merges: bool

    @property
    def last(self) -> int:
        """The last batch of the attempt."""
        return max(self.files)

    @property
    def is_all(self) -> bool:
        """Whether the attempt takes all batches that wait."""
        return len(self.files) == len(self.waiting)

    @property
    def committed(self) -> list[ContentFile]:
        """The files that become a part of the table."""
        return [file for files in self.files.values() for file in files if file.is_data or not self.merges]


def _choose(target: CommitTarget, files: _Files, reached: int, most: int | None) -> _Choice:
    """Choose the batches that the table does not have; an attempt that merges takes at most `most` of them."""
    merges = target.write_mode != EQUALITY_DELETE
    waiting = tuple(sorted(batch for batch in files if batch > reached and files[batch]))
    return _Choice(waiting, {batch: files[batch] for batch in (waiting[:most] if merges else waiting)}, merges)


def _adapt(target: CommitTarget, state: InspectedTable, files: _Files) -> tuple[_Files, set[str]]:
    """Adapt files to the table; return also the paths of deletes that match no row and are left out."""
    adapted = {batch: make_global(state.specs, files[batch]) for batch in files}
    needless = _needless_deletes(adapted) if _is_new(state) and target.write_mode == EQUALITY_DELETE else set[str]()
    return {
        batch: [file for file in of_batch if file.file_path not in needless] for batch, of_batch in adapted.items()
    }, needless


def _is_new(state: InspectedTable) -> bool:
    """Return whether neither the branch nor the table has a snapshot."""
    return state.is_empty and not state.has_branch


def _check_same_table(target: CommitTarget, uuid: str) -> None:
    if target.uuid and uuid != target.uuid:
        raise CommitError(
            f"The table {target.identifier} was dropped and created again, and the staged files belong to the old one",
            step=_STEP,
            target=target.identifier,
            hint="Restore the old table; or give up the events in these files: stop the pipeline, `calve state forget "
            f"{target.identifier}`, and run it again",
        )


def _check_branch(target: CommitTarget, is_tag: bool) -> None:
    if is_tag:
        raise CommitError(
            f"The table {target.identifier} has a tag {target.branch!r}, so it cannot have a branch of that name",
            step=_STEP,
            target=target.identifier,
            hint="Give the tag another name (create that first); then Calve commits the staged files",
        )


def _deletes(files: Iterable[ContentFile]) -> list[str]:
    """Return the paths of the delete files."""
    return [file.file_path for file in files if not file.is_data]


def _needless_deletes(files: Mapping[int, Sequence[ContentFile]]) -> set[str]:
    """Return the paths of equality deletes that match no row, for a branch that was empty before these batches.

    They apply only to rows of earlier snapshots, and there are none before the first batch with rows. Without these
    files PyIceberg, which refuses equality deletes, can read a table after its first load.
    """
    needless: set[str] = set()
    for batch in files.values():
        deletes = _deletes(batch)
        needless.update(deletes)
        if len(deletes) < len(batch):
            break
    return needless


def _remove_files(begun: Attempt, paths: Collection[str]) -> None:
    """Delete staged files that no snapshot references: merged keys, keys without a row, rows written again."""
    if not paths:
        return
    io = begun.table.io()
    for path in paths:
        with contextlib.suppress(Py4JJavaError):
            io.deleteFile(path)
