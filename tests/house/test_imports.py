import subprocess
import sys
from pathlib import Path


def test_imports_point_one_way() -> None:
    law = Path(__file__).with_name("imports.ini")
    # A process of its own: the linter sets up logging and silences the loggers of other tests.
    command = [Path(sys.executable).with_name("lint-imports"), "--config", law, "--no-cache"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
