"""What `calve.spark.write` refuses before Spark computes anything; without Spark."""

from __future__ import annotations

import pytest

from calve.errors import SettingsError
from calve.operate.frames import check_key


@pytest.mark.parametrize(
    ("identifiers", "case_insensitive", "is_there"),
    [
        (["id"], False, True),
        (["id", "place.city", "a.b"], False, True),
        (["ID"], False, False),
        (["ID", "PLACE.city"], True, True),
        (["number"], True, False),
        (["city"], False, False),
    ],
)
def test_a_dataframe_must_have_the_columns_that_identify_a_row(
    identifiers: list[str], case_insensitive: bool, is_there: bool
) -> None:
    columns = ["id", "place", "a.b"]
    if is_there:
        check_key(columns, identifiers, case_insensitive)
        return
    with pytest.raises(SettingsError, match=f"has no column {identifiers[0]}") as refused:
        check_key(columns, identifiers, case_insensitive)
    assert (
        refused.value.hint
        == {
            "ID": "It has id; or set case_insensitive=True",
            "number": "It has: id, place, a.b",
            "city": "It has: id, place, a.b",
        }[identifiers[0]]
    )
