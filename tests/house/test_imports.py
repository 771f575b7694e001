from pathlib import Path

import pytest
from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports


def test_imports_point_one_way(capsys: pytest.CaptureFixture[str]) -> None:
    law = Path(__file__).with_name("imports.ini")
    assert lint_imports(config_filename=str(law), no_cache=True) == EXIT_STATUS_SUCCESS, capsys.readouterr().out
