"""What a pipeline asks of the settings of any sink before the sink is opened."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from calve.durable import local_path

__all__ = ["SinkSettings"]


class SinkSettings:
    """Settings of a sink that commits nothing and rejects into files; a sink overrides what is different.

    Attributes:
        has_tables: Whether the sink stages files for the driver, which commits them to tables.
    """

    has_tables: ClassVar[bool] = False

    @property
    def dlq_prefix(self) -> str | None:
        """Where files of rejected events go; None: the folder in the state."""
        return None

    @property
    def dlq_table(self) -> str | None:
        """The table that rejected events go to; None: files."""
        return None

    @property
    def places(self) -> dict[str, str]:
        """Where the sink stores things, and how, as catalog properties."""
        return {"dlq": self.dlq_prefix or ""}

    @property
    def stores(self) -> tuple[str, ...]:
        """The folders and URIs that the sink writes to, beside its dead letters."""
        return ()

    @property
    def local_folders(self) -> list[Path]:
        """The folders on this machine among all these places."""
        places = (self.dlq_prefix, *self.stores)
        return [folder for place in places if place and (folder := local_path(place))]

    @property
    def shown_place(self) -> str | None:
        """Where its tables are, as a user reads it at the start of a run; None: it has none."""
        return None

    @property
    def appends(self) -> bool:
        """Whether tasks only append rows to one table, so that they evaluate no SQL."""
        return False

    def faults(self, stream: str | None, has_keys: bool) -> Iterable[tuple[str, str]]:
        """Yield options that cannot work with what the pipeline reads, each with the reason.

        Args:
            stream: The format of the change stream that the source is; None: events are the rows themselves.
            has_keys: Whether events are rows of tables, which bring their keys.
        """
        return ()
