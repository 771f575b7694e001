"""`make audit` finds what is known, and says what it could not ask about."""

from __future__ import annotations

import audit

GOOD = {"name": "click", "version": "8.5.1", "vulns": []}
BAD = {"name": "old", "version": "1.0", "vulns": [{"id": "PYSEC-2026-1", "fix_versions": ["1.1"]}]}
SKIPPED = {"name": "duckdb", "skip_reason": "Dependency not found on PyPI"}


def test_a_vulnerability_is_a_problem_with_the_version_that_fixes_it() -> None:
    assert audit.found({"dependencies": [GOOD]}) == []
    assert audit.found({"dependencies": [GOOD, BAD]}) == ["old 1.0: PYSEC-2026-1, fixed in 1.1"]


def test_what_nobody_was_asked_about_is_a_problem() -> None:
    [problem] = audit.found({"dependencies": [GOOD, SKIPPED]})
    assert problem == "1 of 2 packages were not audited (duckdb): Dependency not found on PyPI"
    assert audit.found({"dependencies": []})


def test_the_core_has_no_crates_of_others() -> None:
    assert [package["name"] for package in audit.crates()] == ["calve-core"]
