"""Where the dead letters of a pipeline go: folders, tables, and topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from calve.dead_letters.publish import publish
from calve.dead_letters.table import LetterTable
from calve.ledger.ledger import Ledger
from calve.record.written import Rejects
from calve.settings import PipelineSettings
from calve.sinks.sink import Sink

if TYPE_CHECKING:
    from calve.sinks.kafka.letters import TopicLetters

__all__ = ["PipelineLetters", "letter_topics"]


def letter_topics(settings: PipelineSettings, locations: Sequence[str], name: str) -> list[TopicLetters]:
    """Return the topics of dead letters of a pipeline.

    Args:
        settings: As parsed.
        locations: The folder of each sink's dead letters.
        name: The pipeline's name, or that of its replay.
    """
    topics: dict[str, TopicLetters] = {}
    for sink, location in zip(settings.sinks, locations, strict=True):
        if topic := sink.value.dlq_topic:
            from calve.sinks.kafka.letters import TopicLetters  # brings the client, which other pipelines do not need

            topics.setdefault(location, TopicLetters(topic, location, name))
    return list(topics.values())


class PipelineLetters:
    """The dead letters of all sinks of a pipeline; runs on the driver.

    Args:
        sinks: All sinks of the pipeline.
        topics: The topics of those whose dead letters are sent to one.

    Attributes:
        locations: The folders, or of a table's note, without repetition.
        tables: The names of the tables.
    """

    def __init__(self, sinks: Sequence[Sink], topics: Sequence[TopicLetters] = ()) -> None:
        self._topics = topics
        self._ledger: Ledger | None = None
        self._locations = [sink.dead_letters for sink in sinks]
        self._tables = [sink.tables.letters for sink in sinks if sink.tables and sink.tables.letters]
        self.locations = list(dict.fromkeys(folder.location for folder in self._locations))
        self.tables = frozenset(table.identifier for table in self._tables)

    def open(self) -> None:
        """Find or create the tables and topics.

        Raises:
            CalveError: A catalog or broker does not answer, or a table or topic cannot have dead letters.
        """
        for table in self._tables:
            table.open()
        for topic in self._topics:
            topic.open()

    def send_as(self, ledger: Ledger) -> None:
        """Send to topics, from now on, under the id of this state what is committed there."""
        self._ledger = ledger

    def note(self) -> None:
        """Write down where the tables are."""
        for table in self._tables:
            table.note()

    @property
    def readable(self) -> list[LetterTable]:
        """Where the tables are by now.

        Raises:
            CalveError: One was dropped or changed.
        """
        return [table.readable for table in self._tables]

    def io_properties(self) -> dict[str, dict[str, str]]:
        """Return what a FileIO needs, by location."""
        return {folder.location: folder.io_properties for folder in self._locations}

    def publish(self, rejects: Sequence[Rejects]) -> None:
        """Publish staged dead letters; may be repeated.

        Raises:
            CalveError: They cannot be written.
        """
        publish(rejects, self.io_properties())
        self.send()

    def send(self) -> None:
        """Send what is published to its topics; may be repeated.

        Raises:
            CalveError: It cannot be sent now; it stays where it is.
        """
        if self._ledger is None:
            return
        for topic in self._topics:
            topic.send(self._ledger.state_id, self._ledger.committed.batch)
