"""The settings of the spark source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from calve.settings import option
from calve.sources.settings import SourceSettings

__all__ = ["SETTINGS", "SparkSettings"]


@dataclass(frozen=True)
class SparkSettings(SourceSettings):
    """Takes the rows of a Spark job of your own: `calve.spark.sink` in its `foreachBatch`, never by `calve run`."""

    on_lost_position: Literal["fail", "reload"] = option(
        "fail",
        "If the batches of the stream do not continue after the last written one (its checkpoint was deleted, or it is "
        "another stream): stop with an error, or write what comes. Rows that were written before then come again.",
    )


SETTINGS = SparkSettings
