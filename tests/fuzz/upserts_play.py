"""Plays rounds of upserts with key indexes against a model of the rows: `make fuzz FUZZ=--upserts`.

In a round two pipelines commit to a table, each with an index of its keys, which are of random types. They die, lose
their indexes, and find them damaged or old. A neighbour appends, deletes, compacts, goes back, expires, branches off,
and changes columns, types and specs, also while batches wait. After each commit Spark, PyIceberg and DuckDB must read
the rows of the model; on format version 3 no two rows may have one id.
"""

from __future__ import annotations

import random
import traceback
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from commit.indexed_laws import IndexedLaws
from commit.test_key_search import KINDS
from commit.test_positions import NAME, Laws
from fuzz.check import Finding
from kit.small_indexes import small_indexes
from services import duckdb_iceberg

COMMITS = 12
KEYS = sorted(KINDS.keys() - {"boolean", "fixed[3]", "time"})
"""Types of keys: booleans are too few, and Spark deletes no rows by `fixed` keys, and reads no times."""


@dataclass
class Upserts:
    """What rounds are played on."""

    spark: SparkSession
    duckdb: duckdb_iceberg.Reader | None

    def of(self, seed: str, number: int, folder: Path) -> tuple[Counter[str], list[Finding]]:
        """Play a round in a folder; return what was counted and found."""
        chosen, counts = random.Random(f"{seed}-{number}"), Counter[str]()
        kinds = [chosen.choice(KEYS), *([chosen.choice(KEYS)] if chosen.random() < 0.4 else [])]
        version = chosen.choice((2, 3))
        laws = IndexedLaws(self.spark, folder, chosen.getrandbits(32), kinds, version)
        laws.keeps_row_ids = version == 3 and chosen.random() < 0.3

        def look(has_equality_deletes: bool) -> None:
            Laws.check(laws, has_equality_deletes)
            laws.check_in_duckdb(self.duckdb)
            if version == 3:
                [ids] = self.spark.sql(f"select count(*), count(distinct _row_id) from lakehouse.{NAME}").collect()
                assert ids[0] == ids[1], "two rows have one id"
            counts.update(commits=1, rows=laws.model.total())

        try:
            with pytest.MonkeyPatch.context() as patch:
                small_indexes(patch)
                laws.live(COMMITS, look)
        except Exception as error:
            what = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            text = f"kinds {kinds}, version {version}, {laws.keeps_row_ids=}\n{traceback.format_exc()}"
            return counts, [Finding("difference", what, text)]
        return counts, []
