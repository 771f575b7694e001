"""The settings of any sink, as a pipeline uses them before it opens the sink."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from calve.dead_letters.room import RoomLimits
from calve.dead_letters.settings import KafkaDeadLetters, limits, storage, topic
from calve.state.durable import local_path

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["SinkSettings"]


class SinkSettings:
    """Settings of a sink that commits nothing and writes dead letters to files; other sinks override the properties.

    Attributes:
        has_tables: Whether the sink stages files for the driver, which commits them to tables.
    """

    has_tables: ClassVar[bool] = False

    @property
    def dlq_prefix(self) -> str | None:
        """The location of dead letters in files; None: the folder in the state."""
        return None

    @property
    def adds_keys(self) -> bool:
        """Whether the columns of records' keys become columns of rows, and records without a value delete rows."""
        return False

    @property
    def has_full_rows(self) -> bool:
        """Whether rows of a table have no key, so that an update must have the whole old row."""
        return False

    @property
    def dlq_limits(self) -> RoomLimits:
        """The limits of dead letters in files, from the option `dlq`, if the sink has one."""
        return limits(getattr(self, "dlq", None))

    @property
    def dlq_storage(self) -> dict[str, str]:
        """The properties of a FileIO for dead letters in files that differ from those of other files."""
        return storage(getattr(self, "dlq", None))

    @property
    def dlq_topic(self) -> KafkaDeadLetters | None:
        """The topic of dead letters; None: files or a table."""
        return topic(getattr(self, "dlq", None))

    @property
    def dlq_table(self) -> str | None:
        """The table of dead letters; None: files."""
        return None

    @property
    def locations(self) -> dict[str, str]:
        """The catalog properties with the sink's storage."""
        return {"dlq": self.dlq_prefix or ""}

    @property
    def stores(self) -> tuple[str, ...]:
        """The folders and URIs that the sink writes to, beside its dead letters."""
        return ()

    @property
    def local_folders(self) -> list[Path]:
        """The local folders among all these locations."""
        locations = (self.dlq_prefix, *self.stores)
        return [folder for location in locations if location and (folder := local_path(location))]

    @property
    def shown_location(self) -> str | None:
        """The location of its tables, for the log at the start of a run; None without tables."""
        return None

    @property
    def target_name(self) -> str | None:
        """The name of the tables or indexes that rows go to, with its `${…}`; None: no rows of one replace others."""
        return None

    @property
    def gated_branch(self) -> tuple[Hashable, object] | None:
        """The branch of the one table that rows go to, and the rules for its commits; None: several, or none."""
        return None

    @property
    def evaluates(self) -> bool:
        """Whether tasks probably evaluate SQL, so that it is loaded before they need it."""
        return True

    def faults(
        self, stream: str | None, has_keys: bool, metadata: Mapping[str, pa.DataType]
    ) -> Iterable[tuple[str, str]]:
        """Yield the options that cannot work with the pipeline's source, each with the reason.

        Args:
            stream: The format of the source's change stream; None: events are rows.
            has_keys: Whether events are rows of tables, which have keys.
            metadata: The metadata attributes of the events, and their types.
        """
        return ()
