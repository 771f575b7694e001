"""The settings of the spark source."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import ClassVar, Literal

from calve.credentials import is_secret_key, without_logins
from calve.errors import SettingsError
from calve.settings import option
from calve.settings.catalog import Doubts
from calve.sources.settings import Claim, SourceSettings

__all__ = ["SETTINGS", "SparkSettings"]

_COORDINATES = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+")
_CHECKPOINT = "checkpointlocation"
_PARSES = re.compile(r"\b(from_(?:json|csv|xml))\s*\(", re.I)
_SAYS_HOW = re.compile(r"['\"]mode['\"]|corrupt_?record", re.I)
_LOSSES = {
    ("mode", "dropmalformed"): "rows that Spark cannot read are lost without a word",
    ("mode", "permissive"): "values that Spark cannot read are lost without a word, unless `schema` has a column for "
    "their text",
    ("ignorecorruptfiles", "true"): "the rest of a file that is broken is lost without a word",
    ("ignoremissingfiles", "true"): "a file that is gone is lost without a word",
    ("failondataloss", "false"): "rows that the source no longer has are lost without a word",
}
"""Options and their values with which Spark leaves something out."""


def _check_packages(packages: list[str]) -> None:
    for package in packages:
        if not _COORDINATES.fullmatch(package):
            message = f"{package} is not group:artifact:version"
            raise SettingsError(f"{message}, e.g. org.postgresql:postgresql:42.7.8")


def _doubts(options: dict[str, str]) -> Doubts:
    losses = ((f"{key}: {value}", _LOSSES.get((key.lower(), value.lower()))) for key, value in options.items())
    return Doubts(tuple(f"{chosen}: {loss}" for chosen, loss in losses if loss))


@dataclass(frozen=True)
class SparkSettings(SourceSettings):
    """Reads whatever Spark can read, by the name of the format; without one it takes the rows of your own Spark job."""

    needs_spark: ClassVar[bool] = True

    format: str | None = option(
        None,
        "The name of a source of Spark, e.g. kafka, kinesis, jdbc, parquet, or its class. None: `calve.spark.sink` in "
        "the `foreachBatch` of your own job brings the rows, never `calve run`.",
        minimum=1,
    )
    options: dict[str, str] = option(
        {}, "Its options, as Spark's `option(…)` takes them, e.g. `path`.", secret=True, check=_doubts
    )
    packages: list[str] = option(
        [],
        "Jars of the format, each as group:artifact:version. Spark fetches them and what they need.",
        check=_check_packages,
    )
    read: Literal["stream", "batch"] = option(
        "stream",
        "`stream`: what is there, then what comes, by Structured Streaming. `batch`: all rows once, by `load_id`.",
    )
    schema: str | None = option(
        None,
        "The columns, e.g. `id long, at timestamp`, for formats that do not know them (a stream of files).",
        minimum=1,
    )
    select: list[str] = option(
        [],
        "Expressions of Spark SQL that make the columns, e.g. `cast(value as string) message`. None: all as they are.",
    )
    load_id: str = option(
        "load", "The identity of a load, with `read: batch`: what was loaded with one is not loaded again.", minimum=1
    )
    poll_interval: timedelta = option(
        timedelta(milliseconds=500),
        "How often a stream looks for new rows.",
        minimum=timedelta(milliseconds=10),
    )
    checkpoint: str | None = option(
        None,
        "The folder of Spark's checkpoint of a stream, for it alone. Default: in the state; needed if that is on an "
        "object store, e.g. `s3a://bucket/checkpoint`.",
        minimum=1,
    )
    on_lost_position: Literal["fail", "reload"] = option(
        "fail",
        "If the batches of the stream do not continue after the last written one (its checkpoint was deleted, or it is "
        "another stream), or a load is given up for another one: stop with an error, or write what comes. Rows that "
        "were written before then come again.",
    )

    @property
    def mode(self) -> str:
        """A stream, a load and the rows of a job have different positions."""
        if self.format is None:
            return ""
        return f"stream of {self.format}" if self.read == "stream" else "load"

    @property
    def jars(self) -> Sequence[str]:
        """The packages."""
        return self.packages

    @property
    def fingerprint(self) -> str:
        """What the rows depend on, without what is secret, in short."""
        return self._fingerprint(without_logins)

    @property
    def old_fingerprint(self) -> str:
        """That of loads which an earlier version began: with the secrets in addresses."""
        return self._fingerprint(str)

    def _fingerprint(self, cleanse: Callable[[str], str]) -> str:
        options = {key: cleanse(text) for key, text in sorted(self.options.items()) if not is_secret_key(key)}
        described = json.dumps([self.format, options, self.schema, self.select])
        return hashlib.sha256(described.encode()).hexdigest()[:16]

    def claims(self, pipeline: str) -> Iterator[Claim]:
        """Yield the checkpoint."""
        if self.checkpoint:
            clash = f"writes its checkpoint into {self.checkpoint}; set another `checkpoint`"
            folder = self.checkpoint.removeprefix("file:")
            is_uri = ":/" in folder
            place = folder.rstrip("/") if is_uri else os.path.normpath(Path(folder).expanduser().absolute())
            yield Claim("checkpoint", ("checkpoint", place), clash)

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse options that would have no effect."""
        if self.format is None:
            for name in ("options", "packages", "schema", "select", "checkpoint"):
                if getattr(self, name):
                    yield name, "has no effect without `format`"
        if self.read == "batch" and self.checkpoint:
            yield "checkpoint", "is for streams; a load has none"
        for at, expression in enumerate(self.select):
            if (parses := _PARSES.search(expression)) and not _SAYS_HOW.search(expression):
                way_out = "take the text as a column and parse it by a processor (parse_json), or choose: "
                choice = f"{parses[1]}(…, '…', map('mode', 'FAILFAST'))"
                yield f"select[{at}]", f"{parses[1]} makes NULL of what it cannot parse; {way_out}{choice}"
        for key in self.options:
            if key.lower() == _CHECKPOINT:
                yield f"options.{key}", "has no effect on a source; set `checkpoint` beside `options`"


SETTINGS = SparkSettings
