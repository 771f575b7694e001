"""Sources that end with their test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from calve.sources.source import Position
from sources.http.serving import Serve, Serving


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Start sources on one log; all are stopped at the end."""
    started: list[Serving] = []

    def start(position: Position | None = None, **options: Any) -> Serving:
        started.append(Serving(tmp_path / "http", position, **options))
        return started[-1]

    yield start
    for each in started:
        each.source.stop()
