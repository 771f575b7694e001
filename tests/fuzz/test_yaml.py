"""A few files of `make fuzz FUZZ=--yaml` in this process, and laws of its oracle."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fuzz import documents
from fuzz.documents import examples, make
from fuzz.yaml_play import play, wrong

FILES = 70


def test_whatever_a_configuration_holds_it_is_valid_or_refused_in_a_sentence(tmp_path: Path) -> None:
    kinds, findings = set(), []
    for number in range(FILES):
        kind, found = play(make(f"suite-{number}"), tmp_path / "a.yaml")
        kinds.add(kind)
        findings += [each for each in found if each.kind == "bug"]
    assert findings == []
    assert kinds == {"valid", "refused"}


@pytest.mark.parametrize("bomb", [documents._laughs, documents._ladder, documents._deep])
def test_aliases_and_depth_are_refused_in_a_sentence(tmp_path: Path, bomb: documents.Bomb) -> None:
    for number in range(6):
        assert play(bomb(random.Random(number)), tmp_path / "a.yaml")[1] == []


def test_a_file_is_always_the_same_and_the_examples_are_there() -> None:
    assert [make(f"x-{number}") for number in range(9)] == [make(f"x-{number}") for number in range(9)]
    assert len(examples()) > 50


@pytest.mark.parametrize(
    ("code", "output", "is_wrong"),
    [
        (0, "OK: 1 pipeline: a\n", False),
        (0, "", True),
        (1, "Error: no\n", True),
        (2, "a.yaml:1:2: p: what\n1 error in the configuration\n", False),
        (2, "what\n", True),
        (2, "a.yaml:1:2: Traceback (most recent call last)\n", True),
    ],
)
def test_the_oracle_accepts_only_ok_and_errors_with_a_line(code: int, output: str, is_wrong: bool) -> None:
    exit_ = SystemExit(code) if code else None
    told = Result(CliRunner(), output.encode(), b"", output.encode(), None, code, exit_, None)
    assert bool(list(wrong(told))) is is_wrong
    assert list(wrong(Result(CliRunner(), b"", b"", b"", None, 1, ValueError("x"), None)))
