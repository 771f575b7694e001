from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.sources.database.table import Column, can_widen
from calve.sources.postgres.catalog.column_types import Types, _Type
from calve.sources.postgres.protocol.arrays import NotFlatError, elements
from calve.sources.postgres.values import typed_rows


def typed(kind: str, *texts: str | None) -> list[tuple[pa.DataType, list[object]]]:
    column = Column("c", 1, kind, kind, 0, -1)
    found = list(typed_rows([column], [pa.array(texts, pa.string())]))
    assert [at for at, _ in found] == [sum(len(rows) for _, rows in found[:index]) for index in range(len(found))]
    return [(rows.type[0].type, rows.field(0).to_pylist()) for _, rows in found]


@pytest.mark.parametrize(
    ("kind", "texts", "odd"),
    [
        ("date", {"2024-01-01": "2024-01-01"}, "infinity"),
        ("timestamp", {"2024-01-01 00:00:00.5": "2024-01-01T00:00:00.5"}, "0044-03-15 00:00:00 BC"),
        ("timestamptz", {"2024-01-01 00:00:00+00": "2024-01-01T00:00:00Z"}, "-infinity"),
        ("timestamptz", {"2024-01-01 00:00:00+00": "2024-01-01T00:00:00Z"}, "2024-01-01 00:00:00+01"),
        ("decimal(5, 2)", {"1.50": "1.50"}, "NaN"),
    ],
)
def test_beside_a_value_that_has_no_place_others_are_the_texts_of_their_typed_values(
    kind: str, texts: dict[str, str], odd: str
) -> None:
    [(of_type, _)] = typed(kind, *texts)
    assert of_type != pa.string()
    assert typed(kind, *texts, odd, None, *texts) == [(pa.string(), [*texts.values(), odd, None, *texts.values()])]


def test_a_row_with_an_array_that_is_no_list_stands_alone() -> None:
    found = typed("list<int>", "{1,NULL}", "{{1},{2}}", None, "{}")
    assert found == [
        (pa.list_(pa.int32()), [[1, None]]),
        (pa.string(), ["{{1},{2}}"]),
        (pa.list_(pa.int32()), [None, []]),
    ]


@given(st.lists(st.one_of(st.none(), st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=8))))
def test_the_elements_of_an_array_are_read_as_postgresql_quotes_them(values: list[str | None]) -> None:
    parts = ["NULL" if one is None else '"' + one.replace("\\", "\\\\").replace('"', '\\"') + '"' for one in values]
    assert elements("{" + ",".join(parts) + "}") == values


@pytest.mark.parametrize("text", ["{{1,2},{3,4}}", "[0:1]={1,2}", "1 2"])
def test_arrays_of_arrays_and_other_first_numbers_are_no_lists(text: str) -> None:
    with pytest.raises(NotFlatError):
        elements(text)


@pytest.mark.parametrize(
    ("modifier", "kind"),
    [(786438, "decimal(12, 2)"), (-1, "string"), ((3 << 16 | 0x7FE) + 4, "string"), ((1000 << 16) + 4, "string")],
)
def test_a_numeric_is_a_decimal_if_iceberg_has_one_with_its_digits(modifier: int, kind: str) -> None:
    types = Types()
    types._known = {
        1700: _Type("numeric", True, False, False, 0, -1, 0),
        9: _Type("amount", False, True, False, 1700, modifier, 0),
    }
    assert types.kind(1700, modifier) == kind
    assert types.kind(9, -1) == kind


def test_types_widen_as_iceberg_can() -> None:
    assert can_widen("int", "long")
    assert can_widen("decimal(5, 2)", "decimal(9, 2)")
    assert can_widen("list<int>", "list<long>")
    assert not can_widen("long", "int")
    assert not can_widen("decimal(5, 2)", "decimal(9, 3)")
    assert not can_widen("int", "string")
