from __future__ import annotations

import itertools
import json
import os
import time
from pathlib import Path

import pytest

from calve.errors import SourceError
from calve.observe.status import PipelineStatus
from calve.observe.status_file import StatusFile, read_report, read_reports
from calve.observe.watch import Watch
from services.process import wait_until


def test_every_pipeline_of_a_state_folder_is_found_by_name(tmp_path: Path) -> None:
    with Watch() as watch:
        assert not watch.begun
        for name in ("orders", "clicks"):
            watch.pipeline(name, str(tmp_path / name)).set_state("running")
        assert watch.begun
    assert [report.pipeline for report in read_reports(str(tmp_path))] == ["clicks", "orders"]


def test_the_file_is_rewritten_while_the_pipeline_runs_and_at_the_end(tmp_path: Path) -> None:
    status = PipelineStatus("orders")
    file = StatusFile(status, str(tmp_path / "orders"), interval_seconds=0.01)
    status.set_state("running")
    wait_until(
        lambda: (report := read_report(str(tmp_path), "orders")) is not None and report.state == "running", "the file"
    )
    status.set_state("stopped")
    file.close()
    file.close()
    report = read_report(str(tmp_path), "orders")
    assert report is not None
    assert report.state == "stopped"
    assert [path.name for path in (tmp_path / "orders").iterdir()] == ["status.json"]


def test_a_file_that_takes_long_is_written_less_often_and_all_the_same_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent = itertools.count(step=5)
    monkeypatch.setattr(time, "thread_time", lambda: float(next(spent)))  # each writing takes five seconds
    status = PipelineStatus("orders")
    file = StatusFile(status, str(tmp_path / "orders"), interval_seconds=0.001)
    wait_until(lambda: read_report(str(tmp_path), "orders") is not None, "the file")
    wait_until(lambda: file._rests_until > time.monotonic(), "a rest")
    status.set_state("stopped")
    file.close()
    report = read_report(str(tmp_path), "orders")
    assert report is not None
    assert report.state == "stopped"


def test_a_state_without_pipelines_has_no_reports(tmp_path: Path) -> None:
    assert read_reports(str(tmp_path)) == []
    assert read_reports(str(tmp_path / "missing")) == []
    (tmp_path / "_unpublished").mkdir()
    (tmp_path / "strange").mkdir()
    (tmp_path / "strange" / "file").touch()
    assert read_reports(str(tmp_path)) == []


def test_a_broken_status_file_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "status.json").write_text('{"pipeline": ')
    with pytest.raises(SourceError, match=r"status\.json cannot be read.*delete it"):
        read_reports(str(tmp_path))


def test_a_folder_that_cannot_be_written_is_said_once_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "orders"
    blocked.write_text("a file where the folder should be")
    file = StatusFile(PipelineStatus("orders"), str(blocked), interval_seconds=60)
    with caplog.at_level("WARNING", logger="calve"):
        file.write()
        file.write()
    assert len([record for record in caplog.records if "status file cannot be written" in record.message]) == 1
    blocked.unlink()
    file.close()
    assert json.loads((blocked / "status.json").read_text())["pid"] == os.getpid()
