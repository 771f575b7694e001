"""Copies a state between local folders and object stores; the copy replaces the original."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import msgspec

from calve.commit.index_folder import KEYS
from calve.dead_letters.replay.replayed import ReplayedEntries
from calve.errors import SettingsError
from calve.ledger.ledger import Ledger
from calve.observe.humanize import many
from calve.observe.pause import PAUSE_FILE
from calve.observe.status_file import REPLAY_FOLDER, STATUS_FILE
from calve.pipeline.pipeline_parts import replay_name
from calve.pipeline.plugins import SOURCES
from calve.sources.file.processed_files import ProcessedFiles
from calve.sources.settings import StateForm
from calve.state.folder import StateFolder

__all__ = ["copy_files", "copy_pipeline"]

_STEP = "copy"
_DLQ = "dlq"
_OWN_FORM = ("ledger", REPLAY_FOLDER, KEYS)
"""Folders that are not copied file by file, beside those that sources declare."""


def copy_pipeline(old: StateFolder, new: StateFolder, state: str, say: Callable[[str], None]) -> None:
    """Copy the state of a pipeline and of its replays. The original is refused afterwards.

    Args:
        old: `<state>/<pipeline>`.
        new: The folder of the copy.
        state: The new state, for the message of a run with the old one.
        say: Called with each line about what was done or is left to do.

    Raises:
        SettingsError: The copy exists, or the pipeline has dead letters that are not published.
        OvertakenError: The pipeline runs.
        WriteError: One of them cannot be read or written; remove the copy, and repeat.
    """
    with ExitStack() as stack:
        ledgers: list[tuple[Ledger, StateFolder]] = []
        for part, name in (("", old.name), (REPLAY_FOLDER, replay_name(old.name))):
            folder, target = (old / part, new / part) if part else (old, new)
            if (folder / "ledger").exists():
                ledger = Ledger.open(folder / "ledger", name)
                stack.callback(ledger.close)
                ledgers.append((ledger, target / "ledger"))
        for ledger, target in ledgers:
            _check(ledger, target, state)
        _check_source(old, new)
        files = sum(copy_files(old / name, new / name) for name in _folders(old, new))
        for name in _sources(StateForm.LIST):
            if files_read := ProcessedFiles(old / name).load():
                ProcessedFiles(new / name).add(files_read)
        ReplayedEntries(new / REPLAY_FOLDER).add(ReplayedEntries(old / REPLAY_FOLDER).load())
        _copy_status(old, new)
        for ledger, target in reversed(ledgers):
            ledger.copy_to(target)
        for ledger, _ in ledgers:
            ledger.set_moved(state)
        batch = ledgers[0][0].last_batch if ledgers else 0
    say(f"{old.name}: copied the ledger up to batch {batch}, and {many(files, 'file')}")
    if new.is_shared and not old.is_shared:
        for name in (name for name in _sources(StateForm.DISK_LOG) if (old / name).exists()):
            kept = f"accepted events stay in {old / name}"
            say(f"{old.name}: {kept}; set `log_folder: {old.parent}` of the {name} source")


def _check(ledger: Ledger, target: StateFolder, state: str) -> None:
    problem, hint = "", ""
    staged = [batch.staged for batch in ledger.pending() if batch.staged]
    if target.exists():
        problem = f"There is a state at {target}"
        hint = "Choose another location, or remove it first"
    elif any(batch.rejects or any(entry.commit_rejects for entry in batch.tables) for batch in staged):
        problem = f"The pipeline {ledger.pipeline} has staged batches with dead letters in the old location"
        hint = "Commit them with `calve run --once` and the old state; then copy"
    if problem:
        raise SettingsError(problem, step=_STEP, target=state, hint=hint)


def _check_source(old: StateFolder, new: StateFolder) -> None:
    logs = _sources(StateForm.LOG, StateForm.DISK_LOG) if old.is_shared else _sources(StateForm.LOG)
    source = next((name for name in logs if (old / name).exists()), None)
    if old.is_shared is not new.is_shared and source:
        raise SettingsError(
            f"The log of the source {source} of {old.name} has another form on an object store than on a local disk",
            step=_STEP,
            target=str(new),
            hint=f"Copy this state to another {'place on an object store' if old.is_shared else 'local folder'}",
        )


def _forms() -> dict[str, StateForm]:
    """Return the form of what sources remember, by its folder in the state of a pipeline."""
    kinds = SOURCES.items()
    return {f"{name}/{part}".rstrip("/"): form for name, kind in kinds for part, form in kind.remembers.items()}


def _sources(*forms: StateForm) -> list[str]:
    return [folder for folder, form in _forms().items() if form in forms]


def _folders(old: StateFolder, new: StateFolder) -> list[str]:
    """Return the folders to copy file by file; a folder that no source declares is one of them, so nothing is left."""
    forms = _forms()
    own_forms = {*_OWN_FORM, *_sources(StateForm.LIST)}
    if old.is_shared is not new.is_shared:
        own_forms.update(_sources(StateForm.LOG, StateForm.DISK_LOG))
    top = sorted({name.partition("/")[0] for name in old.names() if "/" in name} - own_forms)
    return [*top, *(folder for folder, form in forms.items() if "/" in folder and form is StateForm.FILES)]


def copy_files(old: StateFolder, new: StateFolder) -> int:
    """Copy the files of a folder, with those below it; return how many."""
    count = 0
    for name in old.names():
        if file := old.get(name):  # else it was removed meanwhile
            new.put(name, file.content)
            count += 1
    return count


def _copy_status(old: StateFolder, new: StateFolder) -> None:
    """Copy the status and a pause; dead letters in the old state are in the new one."""
    if old.get(PAUSE_FILE):
        new.put(PAUSE_FILE, b"")
    if file := old.get(STATUS_FILE):
        status = msgspec.json.decode(file.content)
        place, copied = (f"{folder.absolute() / _DLQ}" for folder in (old, new))
        status["dlq"] = [
            copied + folder.removeprefix(place) if f"{folder}/".startswith(f"{place}/") else folder
            for folder in status.get("dlq", [])
        ]
        new.put(STATUS_FILE, msgspec.json.format(msgspec.json.encode(status)))
