"""A few rounds of `make fuzz`, always the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fuzz.event import Event
from fuzz.play import Stage, load, play, save
from fuzz.tables import Readers
from fuzz.work import make

pytestmark = pytest.mark.spark

ROUNDS = (1, 2, 3, 5, 6, 7, 8, 9)


@pytest.fixture(scope="module")
def stage(spark: SparkSession) -> Iterator[Stage]:
    readers = Readers()
    yield Stage(spark, readers)
    readers.close()


@pytest.mark.parametrize("number", ROUNDS)
def test_whatever_events_hold_each_is_a_row_or_a_dead_letter_and_three_programs_read_the_tables(
    stage: Stage, tmp_path: Path, number: int
) -> None:
    played = play(stage, tmp_path / "round", *make("suite", number, kafka=False))
    assert played.verdict.findings == []
    assert played.refused == ""
    assert played.events > 0


def test_a_round_that_is_kept_can_be_played_again(tmp_path: Path) -> None:
    setup, batches = make("suite", 2, kafka=False)
    save(tmp_path, setup, batches)
    assert load(tmp_path) == (setup, batches)
    assert make("suite", 2, kafka=False) == (setup, batches)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (b'{"kind":"x","kind":"a"}', "a"),
        (b'{"kind":"\\ud800","kind":"a"}', "a"),
        (b'{"kind":"x","kind":"\\udc00"}', "\ufffd"),
        (b'{"kind":"x","kind":"\\ud83d\\ude42"}', "\N{SLIGHTLY SMILING FACE}"),
    ],
)
def test_the_oracle_gives_expressions_the_last_value_and_no_half_of_a_surrogate_pair(text: bytes, kind: str) -> None:
    assert Event(text).seen["kind"] == kind
