"""The options of `calve_changes` are checked by name and value."""

from __future__ import annotations

import pytest

from calve.errors import SettingsError
from calve.operate.changes_format.options import ChangesOptions, changes_options


def test_options_are_texts_and_wrong_ones_say_what_to_write() -> None:
    texts = {"table": "a.b", "identifier_columns": "id, region", "start_snapshot_id": "7", "max_snapshots": "2"}
    assert changes_options(texts) == ChangesOptions("a.b", None, ("id", "region"), 7, None, 2)
    for wrong, reason in (
        ({"tabel": "a.b"}, "unknown option 'tabel'; did you mean table?"),
        ({"table": "a.b", "path": "c.d"}, "unknown option 'path'"),
        ({}, "table is missing"),
        ({"table": "a.b", "start_snapshot_id": "first"}, "start_snapshot_id is 'first', and not a whole number"),
        ({"table": "a.b", "max_snapshots": "0"}, "max_snapshots is 0"),
    ):
        with pytest.raises(SettingsError) as refused:
            changes_options(wrong)
        assert reason in str(refused.value)
