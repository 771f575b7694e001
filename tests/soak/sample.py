"""What a running Calve takes of the machine, at one moment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from calve.observe.humanize import size
from kit.running import Calve

__all__ = ["Sample", "sampled"]


@dataclass(frozen=True)
class Sample:
    """What was found at one moment.

    Attributes:
        seconds: Since the start.
        driver_bytes: Resident memory of the driver.
        jvm_bytes: Of the JVM.
        worker_bytes: Of all Python workers.
        open_files: Of all these processes.
        threads: Of all these processes.
        state_bytes: The state's folder.
        metadata_bytes: The metadata folders of all tables.
        commits: How many commits were made.
    """

    seconds: float
    driver_bytes: int
    jvm_bytes: int
    worker_bytes: int
    open_files: int
    threads: int
    state_bytes: int
    metadata_bytes: int
    commits: int

    def shown(self) -> str:
        """Return it as a line."""
        return (
            f"{self.seconds / 60:.1f} min: driver {size(self.driver_bytes)}, JVM {size(self.jvm_bytes)}, workers "
            f"{size(self.worker_bytes)}, {self.open_files} files, {self.threads} threads, state "
            f"{size(self.state_bytes)}, metadata {size(self.metadata_bytes)}, {self.commits} commits"
        )


def sampled(calve: Calve, seconds: float) -> Sample:
    """Look at the processes and the folders of a running Calve."""
    assert calve.process
    memory = {"driver": 0, "jvm": 0, "worker": 0}
    files = threads = 0
    for process in _family(calve.process.pid):
        try:
            status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
            name, resident = status["Name"].strip(), int(status.get("VmRSS", "0 kB").split()[0]) << 10
            files += len(list((process / "fd").iterdir()))
        except (OSError, KeyError):  # it has ended
            continue
        kind = "driver" if process.name == str(calve.process.pid) else "jvm" if name == "java" else "worker"
        memory[kind] += resident
        threads += int(status["Threads"])
    tables = calve.status("all").get("tables", {}).values()
    return Sample(
        round(seconds, 1),
        *memory.values(),
        files,
        threads,
        _bytes(calve.folder / "calve-state"),
        sum(_bytes(one) for one in calve.folder.glob("lakehouse/*/*/metadata")),
        sum(table["commits"] for table in tables),
    )


def _family(pid: int) -> Iterator[Path]:
    """Give a process and all that it started, directly or not."""
    parents: dict[int, int] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(process.name)] = int((process / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    for one in parents:
        above = one
        while above not in (pid, 0):
            above = parents.get(above, 0)
        if above == pid:
            yield Path("/proc") / str(one)


def _bytes(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:  # removed meanwhile
            continue
    return total
