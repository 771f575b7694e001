"""The page about `notify`, pasted into a shell: each command prints what stands below it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.documents import paste, runnable, yamls


@pytest.mark.spark
def test_the_example_of_notify_and_wait_prints_what_the_page_says(tmp_path: Path) -> None:
    (tmp_path / "orders.yaml").write_text(yamls("docs/notify.md")[0])
    [console] = runnable("docs/notify.md")
    assert paste(console, tmp_path, may_fail=True) == console
