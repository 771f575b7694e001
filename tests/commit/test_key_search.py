"""A search finds the rows of keys in any data file of a table, and reads none that cannot have them."""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from calve.commit import key_search
from calve.commit.key_search import KeySearch, SearchedFile, UnsearchableError
from calve.errors import CommitError, SinkUnavailableError
from calve.record.content_file import ContentFile
from calve.record.target import RowStream
from calve.table.arrow_schema import arrow_schema
from calve.table.loaded import Table
from calve.write.writer import Writers

EPOCH = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
KINDS: dict[str, Callable[[int], Any]] = {
    "int": lambda key: key - 20,
    "long": lambda key: (key - 20) << 33,
    "string": lambda key: f"{chr(200 + key)}{'é' * (key % 20)}",
    "binary": lambda key: bytes([key * 6 % 256, key]),
    "fixed[3]": lambda key: bytes([key, 255, key]),
    "uuid": lambda key: uuid.UUID(int=key << 122).bytes,
    "decimal(38, 3)": lambda key: Decimal(key - 20) * 10**30 + Decimal("0.001"),
    "date": lambda key: EPOCH.date() + datetime.timedelta(key * 40 - 20_000),
    "timestamptz": lambda key: EPOCH + datetime.timedelta(microseconds=key),
    "time": lambda key: datetime.time(0, key // 60, key % 60, key),
    "boolean": lambda key: key % 2 == 0,
}


def table_of(folder: Path, *kinds: str, names: tuple[str, ...] = ("a", "b.c")) -> Table:
    """Describe a table with a key of some types; the second one is in a struct."""
    columns: list[dict[str, Any]] = [{"id": 1, "name": names[0], "required": False, "type": kinds[0]}]
    if kinds[1:]:
        inner = {"type": "struct", "fields": [{"id": 3, "name": names[1], "required": False, "type": kinds[1]}]}
        columns.append({"id": 2, "name": "s", "required": False, "type": inner})
    columns.append({"id": 4, "name": "n", "required": False, "type": "long"})
    schema = json.dumps({"type": "struct", "schema-id": 0, "fields": columns})
    return Table("db.t", "u", f"file:{folder}", schema, '{"spec-id":0,"fields":[]}')


def rows_of(table: Table, keys: list[tuple[Any, ...]]) -> pa.Table:
    columns: list[Any] = [[key[0] for key in keys]]
    if len(table.schema.fields) == 3:
        name = table.schema.fields[1].field_type.fields[0].name
        columns.append([{name: key[1]} for key in keys])
    columns.append(range(len(keys)))
    schema = arrow_schema(table.schema)
    return pa.table([pa.array(one, field.type) for one, field in zip(columns, schema, strict=True)], schema=schema)


def written(table: Table, keys: list[tuple[Any, ...]], batch: int = 0) -> SearchedFile:
    """Write a data file as tasks do, and describe it as a plan does."""
    writers = Writers(uuid.uuid4().hex, 2)
    writers.write(RowStream(0, ""), table, {}, rows_of(table, keys))
    [[file]] = [one.files for one in writers.close().values()]
    content = msgspec.json.decode(file, type=ContentFile)
    bounds = [
        {key: bytes.fromhex(value) for key, value in zip(one.keys, one.values, strict=True)} if one else {}
        for one in (content.lower_bounds, content.upper_bounds)
    ]
    return SearchedFile(content.file_path.removeprefix("file:"), len(keys), *bounds, batch)


def found(search: KeySearch, files: list[SearchedFile]) -> list[list[int]]:
    hits: dict[str, list[int]] = {file.path: [] for file in files}
    for path, rows in search.find(files):
        hits[path] += rows.tolist()
    return [sorted(rows) for rows in hits.values()]


PARTS = (1, 19), (18, 22), (21, 38), (18, 21), (20, 23)
"""Of 40 sorted keys, the 21st of which is searched: before it, around it, behind it, and with it as a bound."""
numbers = st.lists(st.integers(0, 39), min_size=1, max_size=30)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kinds=st.tuples(st.sampled_from(list(KINDS)), st.sampled_from([None, *sorted(KINDS.keys() - {"uuid"})])),
    files=st.lists(st.tuples(st.lists(st.integers(-1, 39), min_size=1, max_size=30), st.integers(0, 3)), max_size=4),
    batches=st.lists(st.tuples(numbers, st.integers(1, 4)), min_size=1, max_size=3),
    joined=st.sampled_from([1, 20, 1_000]),
)
def test_rows_are_found_by_keys_of_any_type_if_a_later_batch_has_the_key(
    tmp_path_factory: Any, kinds: Any, files: Any, batches: Any, joined: int
) -> None:
    kinds = [kind for kind in kinds if kind]  # Arrow builds no arrays of structs with a UUID
    table = table_of(tmp_path_factory.mktemp("t"), *kinds)

    def key(number: int) -> tuple[Any, ...]:
        return tuple(None if number < 0 else KINDS[kind](number) for kind in kinds)

    last: dict[tuple[Any, ...], int] = {}
    for keys, batch in batches:
        last |= {key(number): max(batch, last.get(key(number), 0)) for number in keys}
    ids = (1, 3)[: len(kinds)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_search, "_JOIN_ROWS", joined)
        patch.setattr(key_search, "_READ_ROWS", 7)
        parts = [(batch, rows_of(table, [key(number) for number in keys])) for keys, batch in batches]
        search = KeySearch(table, ids, parts)
        searched = [written(table, [key(number) for number in keys], batch) for keys, batch in files]
        hits = found(search, searched)
    assert hits == [[at for at, number in enumerate(keys) if last.get(key(number), 0) > batch] for keys, batch in files]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("fixed[3]", "uuid", "boolean")])
def test_a_file_whose_bounds_have_no_room_for_a_key_is_not_read(tmp_path: Path, kind: str) -> None:
    table = table_of(tmp_path, kind)
    keys = sorted(KINDS[kind](number) for number in range(40))
    search = KeySearch(table, [1], [(1, rows_of(table, [(keys[0],), (keys[20],), (keys[39],)]))])
    files = [written(table, [(key,) for key in keys[start:end]]) for start, end in PARTS]
    for number in (0, 2):
        Path(files[number].path).unlink()
    assert found(search, files) == [[], [2], [], [2], [0]]


def test_columns_are_found_by_field_id_and_in_files_with_narrower_types(tmp_path: Path) -> None:
    old = table_of(tmp_path, "int", "decimal(9, 2)")
    file = written(old, [(key, Decimal(key)) for key in range(5)])
    table = table_of(tmp_path, "long", "decimal(20, 2)", names=("b.c", "a"))
    search = KeySearch(table, (1, 3), [(1, rows_of(table, [(3, Decimal(3)), (4, Decimal(3)), (9, Decimal(9))]))])
    assert found(search, [file]) == [[3]]


def plain(folder: Path, columns: dict[str, Any], ids: bool = True, **options: Any) -> SearchedFile:
    """Write a file as another writer would."""
    path = folder / f"{uuid.uuid4().hex}.parquet"
    fields = [
        pa.field(name, column.type, metadata={"PARQUET:field_id": str(at)} if ids else None)
        for at, (name, column) in enumerate(columns.items(), 1)
    ]
    pq.write_table(pa.table(list(columns.values()), schema=pa.schema(fields)), path, **options)
    return SearchedFile(str(path), 3, {}, {})


def test_what_another_writer_chose_to_store_a_key_is_compared_by_its_value(tmp_path: Path) -> None:
    table = table_of(tmp_path, "string")
    search = KeySearch(table, [1], [(1, rows_of(table, [("b",)]))])
    texts = pa.array(["a", "b", None])
    files = [plain(tmp_path, {"a": texts.cast(kind)}) for kind in (pa.large_string(), pa.string_view())]
    files.append(plain(tmp_path, {"a": texts.dictionary_encode()}, row_group_size=1))
    assert found(search, files) == [[1], [1], [1]]
    table = table_of(tmp_path, "timestamptz")
    search = KeySearch(table, [1], [(1, rows_of(table, [(EPOCH,)]))])
    times = pa.array([EPOCH.replace(tzinfo=None)] * 2, pa.timestamp("us"))
    old = plain(tmp_path, {"a": times}, use_deprecated_int96_timestamps=True)
    assert found(search, [old]) == [[0, 1]]


def test_a_file_that_is_older_than_a_key_column_has_null_there_and_one_that_needs_spark_is_refused(
    tmp_path: Path,
) -> None:
    table = table_of(tmp_path, "long", "long")
    search = KeySearch(table, (1, 3), [(1, rows_of(table, [(1, 1)]))])
    values = pa.array([1, 2, 3])
    assert found(search, [plain(tmp_path, {"a": values})]) == [[]]
    with pytest.raises(UnsearchableError, match="no field ids"):
        found(search, [plain(tmp_path, {"a": values}, ids=False)])
    with pytest.raises(UnsearchableError):
        found(KeySearch(table, [1], [(1, rows_of(table, [(1, 1)]))]), [plain(tmp_path, {"a": pa.array([1.5])})])
    with pytest.raises(UnsearchableError):
        KeySearch(table, [9], [(1, rows_of(table, [(1, 1)]))])
    later = json.loads(table.schema_json)
    later["fields"].append({"id": 5, "name": "d", "required": False, "type": "long", "initial-default": 7})
    table = Table("db.t", "u", table.location, json.dumps(later), table.spec_json, 3)
    keys = pa.table([pa.array([7])], schema=pa.schema([arrow_schema(table.schema).field("d")]))
    with pytest.raises(UnsearchableError, match="default value"):
        found(KeySearch(table, [5], [(1, keys)]), [plain(tmp_path, {"a": values})])


def test_a_file_that_cannot_be_read_or_is_damaged_says_which_one(tmp_path: Path) -> None:
    table = table_of(tmp_path, "long")
    search = KeySearch(table, [1], [(1, rows_of(table, [(1,)]))])
    with pytest.raises(SinkUnavailableError, match=r"The data file .*gone.parquet cannot be read") as gone:
        found(search, [SearchedFile(str(tmp_path / "gone.parquet"), 1, {}, {})])
    assert "file exists" in gone.value.hint
    (tmp_path / "bad.parquet").write_bytes(b"no Parquet" * 10)
    with pytest.raises(CommitError, match=r"The data file .*bad.parquet is damaged"):
        found(search, [SearchedFile(str(tmp_path / "bad.parquet"), 1, {}, {})])
