"""The laws of the key index: every live row has an entry, whatever happens to the table and to the index."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from calve.commit import key_index, key_levels, key_state
from calve.commit.key_bits import bits_of, kind_of
from calve.commit.key_index import KeyIndex
from calve.commit.key_search import KeySearch
from calve.commit.key_state import UnusableIndexError
from calve.errors import InvariantError
from calve.table.arrow_schema import arrow_schema
from commit.made_lake import KEYS, Lake
from commit.test_key_search import KINDS, rows_of, table_of, written
from kit.compiled_core import needs_core
from kit.examples import examples

pytestmark = needs_core
SECRET = np.array([3, 4], np.uint64)
OTHERS = ("adds", "adds", "deletes", "rewrites", "overwrites", "goes_back", "goes_back_two", "brings_back", "expires")
ACCIDENTS = ("is_refused", "restarts", "loses", "keeps", "restores", "damages", "fails", "dies", "dies")
STEPS = 100


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few rows make many runs."""
    monkeypatch.setattr(key_index, "RUN_ROWS", 12)
    monkeypatch.setattr(key_levels, "_SMALL_ROWS", 5)


def lived(
    folder: Path,
    seed: int,
    version: int,
    words: tuple[str, ...],
    steps: int = STEPS,
    kinds: tuple[str, ...] = ("long",),
) -> Lake:
    """Let things happen to a table between commits; each commit compares what it deletes with every live row."""
    lake = Lake(folder / f"{seed}", seed, version, kinds)
    for _ in range(steps):
        for word in lake.random.choices(words, k=lake.random.choice((0, 0, 1, 2))):
            if version > 2 or word != "brings_back":
                getattr(lake, word)()
        lake.commits()
    return lake


@pytest.mark.parametrize(
    ("version", "kinds"),
    [
        (2, ("long",)),
        (3, ("long",)),
        (3, ("string",)),
        (2, ("uuid",)),
        (3, ("decimal(38, 3)",)),
        (2, ("int", "string")),
        (3, ("int", "string")),
    ],
)
def test_each_of_100_commits_finds_every_older_row_whatever_happened_to_table_and_index(
    tmp_path: Path, version: int, kinds: tuple[str, ...]
) -> None:
    for seed in range(examples(1)):
        lake = lived(tmp_path, hash((seed, *map(len, kinds))), version, OTHERS + ACCIDENTS, kinds=kinds)
        assert lake.found


def test_a_lone_writer_finds_no_row_that_is_deleted_already(tmp_path: Path) -> None:
    lake = lived(tmp_path, 1, 3, ("adds", "rewrites", "is_refused", "expires"), steps=60)
    assert lake.stale == 0
    lake.follow()
    assert lake.index.rows <= 2 * sum(len(lake.keys[path]) for path in lake.files) + key_index.RUN_ROWS


def never(*_: Any, **__: Any) -> bool:
    return False


def ignores_news(follow: Callable[..., None]) -> Callable[..., None]:
    def stays(index: KeyIndex, branch: Any, reader: Any) -> None:
        if index.is_new:
            follow(index, branch, reader)

    return stays


def hides(add: Callable[..., None]) -> Callable[..., None]:
    """Say of every row that it replaces older ones."""

    def replaces(entries: Any, keys: Any, number: int, positions: Any, hidden: Any) -> None:
        entries.add_gone(keys)
        add(entries, keys, number, positions, hidden)

    return replaces


def believe(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KeyIndex, "_is_noted", lambda index, _: index._note is not None)
    patch.setattr(KeyIndex, "_after", lambda index, _: index._state)


MISTAKES: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "rows that come back are not read again": lambda patch: patch.setattr(key_index, "_may_show_more", never),
    "a smaller vector is taken for a larger one": lambda patch: patch.setattr(
        key_index, "_may_show_more", lambda before, file, follows: not follows and before.deletes != file.deletes
    ),
    "a rollback is taken for progress": lambda patch: patch.setattr(
        key_index, "_may_show_more", lambda before, file, _: (file.deleted or 0) < (before.deleted or 0)
    ),
    "inserted rows hide older ones": lambda patch: patch.setattr(
        key_index._NewEntries, "add", hides(key_index._NewEntries.add)
    ),
    "an index that is behind does not follow": lambda patch: patch.setattr(
        KeyIndex, "follow", ignores_news(KeyIndex.follow)
    ),
    "rows of files that are gone are found": lambda patch: patch.setattr(
        key_index, "_dead", lambda _: np.zeros(9999, np.uint64)
    ),
    "a note of a commit that was refused is believed": believe,
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_laws_find_a_planted_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: str) -> None:
    MISTAKES[mistake](monkeypatch)
    with pytest.raises((AssertionError, InvariantError, KeyError, IndexError)):
        lived(tmp_path, 1, 3, OTHERS + ACCIDENTS, steps=600)


def test_an_index_whose_process_is_killed_while_it_follows_continues_and_does_not_begin_anew(tmp_path: Path) -> None:
    lake = lived(tmp_path, 1, 3, ("adds", "adds", "rewrites", "dies", "dies", "dies"), steps=100)
    assert lake.found == 0


def test_find_changes_nothing(tmp_path: Path) -> None:
    lake = lived(tmp_path, 5, 3, ("adds",), steps=9)
    branch = lake.follow()
    before = {path.name: path.read_bytes() for path in lake.folder.iterdir()}
    keys = lake.index.bits(lake.columns(range(KEYS)))
    hits = [sorted((path, rows.tolist()) for path, rows in lake.index.find(keys, branch)) for _ in range(2)]
    assert hits[0] == hits[1]
    assert {path.name: path.read_bytes() for path in lake.folder.iterdir()} == before


def test_an_index_that_is_intact_and_wrong_stops_the_commit(tmp_path: Path) -> None:
    lake = lived(tmp_path, 5, 3, ("adds",), steps=9)
    branch = lake.follow()
    keys = lake.index.bits(lake.columns(range(KEYS)))
    short = {path: file._replace(rows=1) for path, file in branch.files.items()}
    with pytest.raises(InvariantError, match="is wrong: it has row") as wrong:
        list(lake.index.find(keys, branch._replace(files=short)))
    assert "key_index: never" in wrong.value.hint


def test_an_index_of_another_key_format_or_table_is_not_used(tmp_path: Path) -> None:
    lake = lived(tmp_path, 5, 3, ("adds",), steps=3)
    with pytest.raises(UnusableIndexError, match="the key of the table has changed"):
        KeyIndex(lake.folder, "another")
    state = key_state.load(lake.folder, "t")
    content = json.dumps({**json.loads((lake.folder / "index").read_bytes().partition(b"\n")[2]), "format": 9}).encode()
    (lake.folder / "index").write_bytes(key_state._digest(content) + b"\n" + content)
    with pytest.raises(UnusableIndexError, match="another version of Calve"):
        KeyIndex(lake.folder, "t")
    key_state.save(lake.folder, state)
    assert KeyIndex(lake.folder, "t").lines == lake.index.lines[:1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("beside", [None, "string", "int"])
def test_equal_keys_have_equal_bits_and_different_ones_different_bits(
    tmp_path: Path, kind: str, beside: str | None
) -> None:
    kinds = [kind, *([beside] if beside else [])]
    fields = [arrow_schema(table_of(tmp_path, one).schema).field("a").type for one in kinds]
    types = [field.storage_type if isinstance(field, pa.BaseExtensionType) else field for field in fields]
    numbers = [None, *range(40)] * 2
    random.Random(3).shuffle(numbers)
    columns = [
        pa.array([None if number is None else KINDS[one](number // 2 if at else number) for number in numbers], type_)
        for at, (one, type_) in enumerate(zip(kinds, types, strict=True))
    ]
    rows = pa.table(columns, [f"k{at}" for at in range(len(columns))])
    keys = bits_of(rows, SECRET)
    by_bits: dict[bytes, set[Any]] = {}
    for row, bits in zip(keys.rows.tolist(), keys.bits, strict=True):
        by_bits.setdefault(bits.tobytes(), set()).add(tuple(column[row].as_py() for column in columns))
    values = {tuple(column[row].as_py() for column in columns) for row in keys.rows.tolist()}
    assert len(by_bits) == len(values)
    assert all(len(values_of) == 1 for values_of in by_bits.values())
    assert keys.rows.tolist() == [at for at, number in enumerate(numbers) if number is not None]
    part = bits_of(rows.slice(7, 20), SECRET)  # an array that begins within its buffers
    expected = [bits.tobytes() for row, bits in zip(keys.rows.tolist(), keys.bits, strict=True) if 7 <= row < 27]
    assert [bits.tobytes() for bits in part.bits] == expected


@pytest.mark.parametrize(
    ("narrow", "wide", "values"),
    [
        (pa.int32(), pa.int64(), [-1, 0, 7, 2**31 - 1]),
        (pa.decimal128(9, 2), pa.decimal128(38, 2), [Decimal(-1), Decimal(0), Decimal("7.25")]),
    ],
)
def test_a_widened_type_keeps_its_bits(narrow: pa.DataType, wide: pa.DataType, values: list[Any]) -> None:
    texts = [pa.array(["a"] * len(values))]
    for more in ([], texts):
        bits = [
            bits_of(pa.table([pa.array(values, kind), *more], ["a", "b"][: 1 + len(more)]), SECRET).bits
            for kind in (narrow, wide)
        ]
        assert bits[0].tobytes() == bits[1].tobytes()
    assert kind_of(narrow) == kind_of(wide)
    assert kind_of(pa.date32()) != kind_of(pa.timestamp("us"))
    assert kind_of(pa.decimal128(9, 2)) != kind_of(pa.decimal128(9, 3))


@pytest.mark.parametrize("kind", KINDS)
def test_a_searched_key_has_the_bits_of_its_row(tmp_path: Path, kind: str) -> None:
    table = table_of(tmp_path, kind)
    keys = [(KINDS[kind](number),) for number in range(2 if kind == "boolean" else 40)]
    search = KeySearch(table, [1], [(1, rows_of(table, keys))])
    [part] = search.read([written(table, keys)])
    bits = [{key.tobytes() for key in bits_of(rows, SECRET).bits} for rows in (search.keys, part.columns)]
    assert bits[0] == bits[1]
    assert len(bits[0]) == len(keys)
