"""Batches of changes leave in a table what they leave in a dictionary: every write mode, key, spec, format version."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from calve.catalog.catalog import Catalog, embedded
from calve.engine import session
from calve.errors import SinkUnavailableError
from commit.changes import KINDS, LACKS, NAME, Changing

pytestmark = pytest.mark.spark

EXAMPLES = int(os.environ.get("CALVE_CHANGES_EXAMPLES", "6"))
MODES = ("equality-delete", "merge-on-read", "copy-on-write")
SPECS: list[list[tuple[str, str]]] = [
    [],
    [("place", "identity")],
    [("id", "bucket[2]")],
    [("id", "identity"), ("value", "bucket[2]")],
]
DEATHS = ("commit.before-swap", "commit.after-swap")


class Death(BaseException):
    """Ends an attempt where a kill would."""


change = st.tuples(st.sampled_from("cuuddpvk"), st.integers(0, 5), st.integers(0, 1), st.sampled_from(["x", "y", None]))
batch = st.tuples(
    st.lists(change, min_size=1, max_size=12),
    st.integers(1, 3),
    st.sampled_from(MODES),
    st.sampled_from([None, None, *DEATHS]),
    st.booleans(),
)


def well_formed(changes: list[tuple[Any, ...]], known: set[tuple[int, int]], keep: bool) -> list[tuple[Any, ...]]:
    """An INSERT is of a key that is not there, as its source would promise; an UPDATE lacks only what can be kept."""
    made = []
    for word, key, sub, place in changes:
        is_there = (key, sub) in known
        if (word == "c" and is_there) or (word in LACKS and not (keep and (is_there or word == "p"))):
            word = "u"
        made.append((word, key, sub, place))
        (known.discard if word == "d" else known.add)((key, sub))
    return made


@settings(
    max_examples=EXAMPLES,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    kind=st.sampled_from(list(KINDS)),
    specs=st.sampled_from(SPECS),
    version=st.sampled_from([2, 3]),
    batches=st.lists(batch, min_size=2, max_size=4),
    keep=st.booleans(),
    nested=st.sampled_from([False, False, True]),
)
def test_the_table_is_the_dictionary_after_every_commit(
    spark: SparkSession,
    tmp_path_factory: Any,
    kind: str,
    specs: Any,
    version: int,
    batches: Any,
    keep: bool,
    nested: bool,
) -> None:
    folder = tmp_path_factory.mktemp("lake")
    table = Changing(named(spark, folder, "file://"), folder, kind, specs, version, keep=keep, nested=nested)
    table.create()
    done: set[str] = set()
    files: dict[int, list[Any]] = {}
    for number, (changes, tasks, chosen, death, waits) in enumerate(batches, 1):
        mode = MODES[1] if chosen == MODES[0] and (keep or kind == "fixed") else chosen
        staged = table.stage(well_formed(changes, set(table.oracle), keep), tasks)
        files[table.batch] = staged
        if waits and number < len(batches):
            continue
        done |= {mode} if any(not file.is_data for part in files.values() for file in part) else set()
        die_at(death, lambda files=files, mode=mode: table.commit(files, mode))
        table.commit(files, mode)
        files = {}
        by_spark = "spark.app.id" in dict(table.catalog.load_java(NAME).currentSnapshot().summary())
        assert not by_spark or mode == MODES[2]
        assert table.in_spark() == table.in_calve() == table.expected()
        if (other := other_reader(table, done)) is not None:
            assert other() == table.expected()


def other_reader(table: Changing, done: set[str]) -> Callable[[], Any] | None:
    """Choose a reader that is not Java for a table that deletes of these modes reached, if one can read it."""
    if (table.kind, table.specs) == ("fixed", SPECS[3]):
        return None  # manifests that are partitioned by such a column
    if MODES[0] not in done:
        return table.in_pyiceberg
    has_vectors = table.version == 3 and MODES[1] in done
    return None if table.nested or table.kind == "uuid" or has_vectors else table.in_rust


@pytest.mark.parametrize(("version", "specs"), [(2, []), (3, [("place", "identity")]), (2, [("id", "bucket[4]")])])
def test_equality_deletes_reach_older_rows_only_and_wherever_they_are_for_a_reader_that_is_not_java(
    spark: SparkSession, tmp_path: Path, version: int, specs: Any
) -> None:
    table = Changing(named(spark, tmp_path, "file://"), tmp_path, "long", specs, version, nested=False)
    table.create()
    table.commit({1: table.stage([("c", key, sub, "x") for key in range(6) for sub in range(2)])}, MODES[0])
    table.commit(
        {2: table.stage([("u", 1, 0, "y"), ("u", 2, 1, None), ("d", 3, 0, None), ("d", 4, 1, None)], 2)}, MODES[0]
    )
    table.commit({3: table.stage([("u", 1, 0, "x"), ("c", 3, 0, "y"), ("d", 2, 1, None)])}, MODES[0])
    assert table.in_spark() == table.in_rust() == table.in_calve() == table.expected()
    table.catalog.load_java(NAME).updateSchema().moveFirst("value").commit()
    table.commit({4: table.stage([("d", 5, 1, None), ("u", 5, 0, "y")])}, MODES[0])
    assert table.in_spark() == table.in_rust() == table.in_calve() == table.expected()


def named(spark: SparkSession, folder: Path, scheme: str = "") -> Catalog:
    """Make a catalog that Spark's SQL knows as `lakehouse`; a new one takes the place of the old one."""
    properties = embedded(folder)
    properties["warehouse"] = scheme + properties["warehouse"]
    spark._jsparkSession.sessionState().catalogManager().reset()
    for key, value in {"": "org.apache.iceberg.spark.SparkCatalog", "cache-enabled": "false", **properties}.items():
        spark.conf.set("spark.sql.catalog.lakehouse" + (f".{key}" if key else ""), value)
    return Catalog(session.start(), properties)


def die_at(point: str | None, action: Any) -> None:
    """Do something that ends at a named point, if there is one."""
    if point is None:
        return

    def reach(reached: str) -> None:
        if reached == point:
            raise Death

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("calve.commit.swap.stop_at", reach)
        with contextlib.suppress(Death):
            action()


@pytest.mark.parametrize(
    ("mode", "branch", "version", "keep"),
    [("merge-on-read", "b", 2, False), ("merge-on-read", "main", 3, True), ("copy-on-write", "main", 2, False)],
)
def test_a_merge_that_another_writer_overtook_is_done_again_and_leaves_no_file_behind(
    spark: SparkSession, tmp_path: Path, mode: str, branch: str, version: int, keep: bool
) -> None:
    table = Changing(named(spark, tmp_path), tmp_path, "long", [("place", "identity")], version, branch, keep=keep)
    table.create()
    table.commit({1: table.stage([("c", key, 0, "x") for key in range(6)])}, mode)
    files = {
        2: table.stage([("d", 1, 0, None), ("v" if keep else "u", 2, 0, "y"), ("v" if keep else "u", 4, 0, "y")]),
        3: table.stage([("u", 2, 0, "x"), ("d", 3, 0, None)]),
    }
    overtaking = [lambda: table.catalog.load_java(NAME).newFastAppend().toBranch(branch).commit()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "calve.commit.swap.stop_at", lambda point: overtaking.pop()() if "before" in point and overtaking else None
        )
        table.commit(files, mode)
    assert not overtaking
    assert table.in_spark() == table.in_pyiceberg() == table.expected()
    java = table.catalog.load_java(NAME)
    assert "write.merge.mode" not in dict(java.properties())
    known = {row[0] for row in spark.sql(f"select file_path from lakehouse.{NAME}.all_files").collect()}
    there = {str(path) for path in (tmp_path / "db").rglob("*.p*") if path.suffix in (".parquet", ".puffin")}
    assert there == known


def test_merges_of_many_batches_come_through_although_another_writer_is_faster_than_three_of_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    mode = "copy-on-write"
    table = Changing(named(spark, tmp_path), tmp_path, "long", [], 2)
    table.create()
    table.commit({1: table.stage([("c", key, 0, "x") for key in range(6)])}, mode)
    files = {number: table.stage([("d", number - 2, 0, None), ("u", 5, 0, "y")]) for number in range(2, 7)}
    merges: list[int] = []

    def overtake(point: str) -> None:
        if "before" in point and len(merges) > 2:
            table.catalog.load_java(NAME).newFastAppend().commit()
        merges.clear()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("calve.commit.swap.stop_at", overtake)
        patch.setattr("calve.commit.stage.fail_if", lambda *_: merges.append(1))
        table.commit(files, mode)
    assert table.in_spark() == table.in_pyiceberg() == table.expected()
    told = [dict(one.summary()) for one in table.catalog.load_java(NAME).snapshots()]
    batches = [(one["calve.batch"], one.get("calve.rejected")) for one in told if "calve.batch" in one]
    assert list(dict(batches).items()) == [("1", "7"), *((str(each), None) for each in range(2, 6)), ("6", "7")]


def test_merges_that_take_long_are_committed_in_parts_and_each_part_removes_only_its_own_staged_keys(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Changing(named(spark, tmp_path), tmp_path, "long", [], 2)
    table.create()
    table.commit({1: table.stage([("c", key, 0, "x") for key in range(6)])}, "copy-on-write")
    files = {number: table.stage([("d", number - 2, 0, None), ("u", 5, 0, "y")]) for number in range(2, 5)}
    keys = [Path(file.file_path) for staged in files.values() for file in staged if not file.is_data]
    swaps: list[int] = []
    monkeypatch.setattr("calve.commit.stage._LONG_SECONDS", -1.0)
    monkeypatch.setattr("calve.commit.swap.stop_at", lambda _: swaps.append(sum(path.exists() for path in keys)))
    table.commit(files, "copy-on-write")
    assert swaps[::2] == [3, 2, 1]
    assert table.in_spark() == table.in_pyiceberg() == table.expected()


def test_a_property_of_the_table_that_a_merge_needs_for_itself_is_the_same_afterwards(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = Changing(named(spark, tmp_path), tmp_path, "long", [], 3)
    table.create()
    table.catalog.load_java(NAME).updateProperties().set("write.merge.mode", "merge-on-read").commit()
    table.commit({1: table.stage([("c", 1, 0, "x"), ("c", 2, 0, "x")])}, "copy-on-write")
    table.commit({2: table.stage([("d", 1, 0, None)])}, "copy-on-write")
    java = table.catalog.load_java(NAME)
    assert dict(java.properties())["write.merge.mode"] == "merge-on-read"
    assert dict(java.currentSnapshot().summary())["total-position-deletes"] == "0"
    assert table.in_spark() == table.expected()


def test_a_key_that_was_renamed_after_staging_is_found_and_one_that_cannot_be_read_is_tried_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = Changing(named(spark, tmp_path), tmp_path, "uuid", [], 2)
    table.create()
    table.commit({1: table.stage([("c", 1, 0, "x"), ("c", 2, 0, "x")])}, "merge-on-read")
    files = table.stage([("d", 1, 0, None), ("u", 2, 0, "y")])
    [keys] = [Path(file.file_path) for file in files if not file.is_data]
    table.catalog.load_java(NAME).updateSchema().renameColumn("id", "other").commit()
    keys.rename(tmp_path / "away")
    with pytest.raises(SinkUnavailableError, match=r"The staged keys .* cannot be read"):
        table.commit({2: files}, "merge-on-read")
    (tmp_path / "away").rename(keys)
    table.commit({2: files}, "merge-on-read")
    table.catalog.load_java(NAME).updateSchema().renameColumn("other", "id").commit()
    assert table.in_spark() == table.expected()
