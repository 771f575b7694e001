"""Where a file goes by the location that its table has."""

from __future__ import annotations

from pathlib import Path

import pytest

from calve.state.durable import local_path


@pytest.mark.parametrize(
    "location", ["/l/at=00%3A01/a b#c?d", "file:/l/at=00%3A01/a b#c?d", "file:///l/at=00%3A01/a b#c?d"]
)
def test_a_local_location_is_a_path_letter_by_letter_as_it_is_to_every_reader(location):
    assert local_path(location) == Path("/l/at=00%3A01/a b#c?d")


def test_the_location_of_an_object_store_is_no_path():
    assert local_path("s3://bucket/at=00%3A01") is None
