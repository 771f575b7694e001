"""The page about `notify`, pasted into a shell: each command prints what stands below it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kit.running import PATIENCE_SECONDS

PAGE = Path(__file__).parents[2].joinpath("docs/notify.md").read_text()


@pytest.mark.spark
def test_the_example_of_notify_and_wait_prints_what_the_page_says(tmp_path: Path) -> None:
    yaml = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[0]
    [console] = re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "orders.yaml").write_text(yaml)
    commands = [line.removeprefix("$ ") for line in console.splitlines() if line.startswith("$ ")]
    script = "".join(f"cat <<'SHOWN'\n$ {command}\nSHOWN\n{command}\n" for command in commands)
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.stdout == console
