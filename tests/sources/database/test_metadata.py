"""The ids of documents of databases: no two keys have the same one, and none is empty."""

from __future__ import annotations

import pyarrow as pa
import pytest
from msgspec.structs import replace

from calve.sources.database.metadata import Stamps, columns
from calve.sources.database.table import Column, DatabaseTable

KEY = Column("k", 1, "string", "text", 25, -1, is_key=True)


@pytest.mark.parametrize("name", ["document_id", "primary_key"])
def test_the_id_of_an_empty_text_is_no_other_ones_and_not_empty(name: str) -> None:
    keys = ["", r"\E", None, "|", r"\N", "E"]
    table = DatabaseTable("d", 1, "app", "t", (KEY,))
    ids = columns({name: None}, table, "d", Stamps.of_load(len(keys), "insert"), [pa.array(keys)])[name].to_pylist()
    assert ids == [r"\E", r"\\E", r"\N", r"\|", r"\\N", "E"]


def test_the_id_of_two_empty_texts_is_their_bar() -> None:
    table = DatabaseTable("d", 1, "app", "t", (KEY, replace(KEY, name="l")))
    values = [pa.array([""]), pa.array([""])]
    [document_id] = columns({"document_id": None}, table, "d", Stamps.of_load(1, "insert"), values)["document_id"]
    assert document_id.as_py() == "|"
