"""Sources that end with their test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sources.otlp.serving import OtlpServing, Serve


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Start sources on one log; all are stopped at the end."""
    started: list[OtlpServing] = []

    def start(**options: Any) -> OtlpServing:
        started.append(OtlpServing(tmp_path / "otlp", **options))
        return started[-1]

    yield start
    for serving in started:
        serving.source.stop()
