"""A full disk, wherever it is: what cannot be kept is refused, batches wait, and all goes on when there is space."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter

import pytest

from kit.running import Calve, post, until
from services.process import free_ports

YAML = """
web:
  source: {{http: {{port: {port}, min_free_bytes: 1mb}}}}
  sink:
    - iceberg:
        table_identifier: "out.t${{/t}}"
        auto_create: true
        flush_interval: 100ms
        commit_interval: 200ms
        dlq: {{min_free_bytes: 0b}}
"""


class Disk:
    """A small file system of its own."""

    def __init__(self, folder):
        self.folder, self.ballast = folder, folder / "ballast"
        folder.mkdir(parents=True)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", folder], check=False)
        self.mounted = done.returncode == 0

    def fill(self):
        with self.ballast.open("wb", buffering=0) as file:
            try:
                while file.write(b"x" * 4096):
                    pass
            except OSError:
                return

    def unmount(self):
        if self.mounted:
            subprocess.run(["umount", "-l", self.folder], check=False)


@pytest.mark.crash
@pytest.mark.spark
def test_a_full_disk_delays_and_loses_nothing(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system")
    [port] = free_ports(1)
    calve = Calve(tmp_path, YAML.format(port=port))
    disks = [Disk(tmp_path / place) for place in ("lakehouse", "calve-state", "calve-state/web/dlq")]
    lake, state, letters = disks
    try:
        if not all(disk.mounted for disk in disks):
            pytest.skip("file systems cannot be mounted here")
        calve.start()
        until(lambda: _post(port, 0) == 200, "the source listens")
        until(lambda: _done(calve, 1), "the first request is committed")
        for number, disk in enumerate((lake, letters)):
            disk.fill()
            assert _post(port, 1 + number) == 200
            until(lambda: "No space left" in str(calve.status("web").get("errors")), "the status tells it")
            disk.ballast.unlink()
            until(lambda number=number: _done(calve, 2 + number), "it goes on by itself")
        state.fill()
        assert _post(port, 9) in (429, 503)
        state.ballast.unlink()
        until(lambda: _post(port, 3) == 200, "it accepts again")
        assert calve.stop() == 0, calve.said()[-1500:]
        assert sorted(calve.rows("out.t1").column("id").to_pylist()) == list(range(40))
        assert Counter(json.loads(entry["event"])["bad"] for entry in calve.dead_letters("web")) == Counter(range(4))
    finally:
        calve.end()
        for disk in reversed(disks):
            disk.unmount()


def _post(port, number):
    good = [{"id": number * 10 + i, "t": 1} for i in range(10)]
    return post(port, [*good, {"bad": number, "t": "."}], key=f"k{number}")


def _done(calve, requests):
    status = calve.status("web")
    rows = sum(table["rows"] for table in status.get("tables", {}).values())
    return rows == requests * 10 and sum(status["rejects"].values()) == requests and not status["errors"]
