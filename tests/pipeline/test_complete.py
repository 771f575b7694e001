from __future__ import annotations

from collections.abc import Mapping

import pytest

from calve.errors import NothingFoundError, SourceError
from calve.pipeline.complete import check_complete


class Files:
    """A source of files."""

    def __init__(self, nothing_found: str) -> None:
        self.nothing_found = nothing_found


class Tables:
    """A source of tables."""

    def __init__(self, stopped: Mapping[str, str]) -> None:
        self.stopped = stopped


def test_no_file_at_all_fails_unless_it_is_allowed() -> None:
    check_complete(Files(""), allow_empty=False)  # type: ignore[arg-type]
    check_complete(Files("no file matches in/*"), allow_empty=True)  # type: ignore[arg-type]
    with pytest.raises(NothingFoundError, match=r"Nothing to read: no file matches in/\*.*--allow-empty"):
        check_complete(Files("no file matches in/*"), allow_empty=False)  # type: ignore[arg-type]


def test_a_stopped_table_fails_whatever_is_allowed() -> None:
    check_complete(Tables({}), allow_empty=False)  # type: ignore[arg-type]
    with pytest.raises(SourceError, match=r"1 stopped table: a \(dropped\)"):
        check_complete(Tables({"a": "dropped"}), allow_empty=True)  # type: ignore[arg-type]
