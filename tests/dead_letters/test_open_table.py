from __future__ import annotations

from dataclasses import replace

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from calve.dead_letters.open_table import check_letters
from calve.dead_letters.table import LETTERS
from calve.errors import SchemaConflictError, UnsupportedError
from calve.table.loaded import Table


def table(*fields: NestedField) -> Table:
    return Table("ops.dead", "", "", Schema(*fields).model_dump_json(), '{"spec-id": 0, "fields": []}')


def test_a_table_with_the_columns_of_an_entry_and_optional_others_takes_dead_letters() -> None:
    check_letters(table(*LETTERS.fields, NestedField(50, "note", StringType(), required=False)))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (LETTERS.fields[1:], "it has no column timestamp"),
        ((*LETTERS.fields[:-1], NestedField(12, "number", StringType())), "its column number is string, not long"),
        ((*LETTERS.fields, NestedField(50, "id", LongType(), required=True)), "its column id is required"),
    ],
)
def test_a_table_that_entries_do_not_fit_is_refused(fields: tuple[NestedField, ...], said: str) -> None:
    with pytest.raises(SchemaConflictError, match=rf"ops\.dead cannot be a table of dead letters: {said}"):
        check_letters(table(*fields))


def test_a_table_whose_files_cannot_be_written_is_refused() -> None:
    with pytest.raises(UnsupportedError):
        check_letters(replace(table(*LETTERS.fields), properties={"write.format.default": "lance"}))
