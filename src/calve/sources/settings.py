"""What the settings of any source answer about it: a declaration that is read without opening the source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    import pyarrow as pa

    from calve.serde.settings import Serde
    from calve.sources.tables import Tables

__all__ = ["Claim", "SourceSettings", "StateForm"]

_ANY_HOST = ("", "0.0.0.0", "::")  # read, not listened on


class StateForm(Enum):
    """In what form a source keeps something in the state; a copy of the state needs to know."""

    FILES = "files that are the same in a local folder and on an object store"
    LIST = "the list of processed files"
    LOG = "a log of events that has another form on an object store"
    DISK_LOG = "such a log, which the option `log_folder` may keep on a disk beside a state on an object store"


@dataclass(frozen=True)
class Claim:
    """What only one pipeline may have on its machine or its server.

    Attributes:
        key: The option that chooses it, e.g. `topics[0].group_id`.
        thing: What it is; pipelines with equal things take it from each other.
        clash: What another pipeline also does, and what helps, e.g. "listens on port 2021; set another `port`".
        host: The address of this machine that it is on; empty: it is not on one address alone.
    """

    key: str
    thing: tuple[object, ...]
    clash: str
    host: str = ""

    def clashes(self, other: Claim) -> bool:
        """Return whether two pipelines cannot both have their claims."""
        hosts = {self.host, other.host}
        return self.thing == other.thing and (len(hosts) == 1 or not hosts.isdisjoint(_ANY_HOST))


class SourceSettings:
    """Settings of a source that reads JSON events in one part and keeps nothing; sources override what differs.

    Attributes:
        accepts: Whether it accepts events from clients; then a run writes them before it ends.
        replicates: Whether it has the option `durable`: `replicated` keeps accepted events on the state's object store.
        origin: The metadata attributes that identify the parts that are read in parallel, each in order.
        record_time: The metadata attribute with the time of a record: epoch milliseconds, or ISO 8601 in UTC; empty:
            its records have none, or the time when it accepted them (`accepts`).
        has_keys: Whether its events are rows of tables, which have keys.
        emits_changes: Whether its events are changes, whose operation is the metadata attribute `operation`.
        row_attributes: The metadata attributes that have values of rows, such as those of a key.
        needs_spark: Whether it reads tables with Spark SQL.
        holds_on_server: Whether it makes something on its server that stays until `drop` of its `source.py`.
        table_defaults: The options of an Iceberg sink for tables of its rows that no option of the sink arranges.
        remembers: What it keeps in its folder of the state: the form, by the path in it; `""`: all of the folder.
    """

    accepts: ClassVar[bool] = False
    replicates: ClassVar[bool] = False
    origin: ClassVar[tuple[str, ...]] = ()
    record_time: ClassVar[str] = ""
    has_keys: ClassVar[bool] = False
    emits_changes: ClassVar[bool] = False
    row_attributes: ClassVar[tuple[str, ...]] = ()
    needs_spark: ClassVar[bool] = False
    holds_on_server: ClassVar[bool] = False
    table_defaults: ClassVar[Mapping[str, list[str]]] = {}
    remembers: ClassVar[Mapping[str, StateForm]] = {"": StateForm.FILES}

    @property
    def metadata(self) -> Mapping[str, pa.DataType]:
        """The metadata attributes of its events, and their types."""
        return {}

    @property
    def metadata_fields(self) -> Mapping[str, str]:
        """The fields that its options add to events, by their keys, each with the metadata attribute that it has."""
        return {}

    @property
    def keeps_events(self) -> bool:
        """Whether it keeps events of its own until they are committed, in a log that must not grow for long."""
        return self.accepts or self.keeps_events_here or self.emits_changes

    @property
    def keeps_events_here(self) -> bool:
        """Whether accepted events are on a disk of this machine, so that another one cannot continue with them."""
        return self.accepts

    @property
    def log_folder(self) -> str | None:
        """The local folder for accepted events, beside the state; None: the state folder."""
        return None

    @property
    def mode(self) -> str:
        """What distinguishes its positions from those of the same source with other options, e.g. `with tail`."""
        return ""

    @property
    def envelope(self) -> str | None:
        """The format of the envelopes that its events are, a name in `SHAPES`; None: they are none."""
        return None

    @property
    def unavailable_value(self) -> str | None:
        """The configured placeholder of Debezium for values that did not change; None without one."""
        return None

    @property
    def serde(self) -> Serde | None:
        """How values with a schema become rows; None: they have none.

        Raises:
            SettingsError: The file of the schema cannot be read.
        """
        return None

    @property
    def datasets(self) -> Sequence[tuple[str, str]]:
        """What it reads, as namespace and name in OpenLineage's spelling; none: the configuration does not name it."""
        return ()

    @property
    def catalogs(self) -> Sequence[Mapping[str, str]]:
        """The properties of the catalogs that it reads."""
        return ()

    @property
    def jars(self) -> Sequence[str]:
        """The jars that Spark needs for it, as group:artifact:version."""
        return ()

    @property
    def selected(self) -> Tables | None:
        """The tables of a database that it loads and follows; None: it reads no database."""
        return None

    def claims(self, pipeline: str) -> Iterator[Claim]:
        """Yield what no other pipeline may have."""
        return iter(())
