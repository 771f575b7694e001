"""What the thread of a pipeline raises makes the pipeline fail."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from calve.observe.watch import Watch
from calve.pipeline import run


def test_a_pipeline_whose_code_cannot_be_loaded_has_failed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "calve.pipeline.driver", None)
    failed: list[str] = []
    with Watch() as watch:
        run._run_one(Mock(), SimpleNamespace(name="p"), run.RunOptions(state=str(tmp_path)), watch, Mock(), failed)
    assert failed == ["p"]
