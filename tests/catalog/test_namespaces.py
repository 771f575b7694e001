"""What a catalog says when it is asked for its namespaces decides whether a missing one is the fault of an event."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from calve.catalog import namespaces
from calve.catalog.catalog import Catalog, embedded
from calve.engine import session
from calve.errors import CommitError, NoTargetError, SetupError, SinkRefusedError, SinkUnavailableError

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("error", [NoTargetError, SinkUnavailableError, SinkRefusedError, SetupError, CommitError])
def test_only_a_catalog_that_is_away_or_lacks_its_warehouse_is_at_fault(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def fail(*_: object) -> None:
        raise error("no")

    catalog = Catalog(session.start(), embedded(tmp_path))
    catalog.check_warehouse()
    monkeypatch.setattr(namespaces, "ask", fail)
    if error in (NoTargetError, SinkUnavailableError):
        with pytest.raises(error):
            catalog.check_warehouse()
    else:
        catalog.check_warehouse()
