"""What Kafka refuses of a batch: rules, which decide the same for the same record whenever the batch comes again."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
from confluent_kafka import KafkaError

from calve import structs
from calve.sinks.records.record import OutgoingRecord

__all__ = ["OF_RECORDS", "OF_TOPICS", "BatchMark", "RecordRefusals"]

OF_TOPICS = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_EXCEPTION,
}
"""A broker's codes for a topic that takes no record."""
OF_RECORDS = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG_SIZE, KafkaError.INVALID_RECORD}
"""A broker's codes for a request because of one of its records."""


@dataclass
class RecordRefusals:
    """Rules that decide which records are refused.

    Attributes:
        topics: The code for all records of a topic.
        sizes: The least size of a record that is too large, by topic.
        keyless: The topics that take no record without a key.
    """

    topics: dict[str, int] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    keyless: set[str] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.names)

    @property
    def names(self) -> set[str]:
        """The topics that refuse a record."""
        return {*self.topics, *self.sizes, *self.keyless}

    def add(self, code: int, topic: str, key: bytes | None, size_bytes: int) -> None:
        """Learn from a record that was refused alone."""
        if code == KafkaError.INVALID_RECORD and key is None:
            self.keyless.add(topic)
        elif code in OF_RECORDS and code != KafkaError.INVALID_RECORD:
            self.sizes[topic] = min(size_bytes, self.sizes.get(topic, size_bytes))
        else:
            self.topics[topic] = code

    def reason(self, record: OutgoingRecord) -> str | None:
        """Return why a record is refused; None: it is not."""
        if code := self.topics.get(record.target):
            return f"Kafka refuses the topic {record.target}: {KafkaError(code).str()}"
        if record.size_bytes >= self.sizes.get(record.target, record.size_bytes + 1):
            return (
                f"the record has {record.size_bytes} bytes, more than the topic {record.target} takes "
                "(max.message.bytes)"
            )
        if record.key is None and record.target in self.keyless:
            return f"the topic {record.target} takes no records without a key: it is compacted"
        return None


class BatchMark(msgspec.Struct, omit_defaults=True):
    """What a transaction leaves in the offsets of its group, beside the batch's number as the offset.

    Attributes:
        batch: The number of the batch; 0: there is none.
        refusals: What was refused of it.
    """

    batch: int = 0
    refusals: RecordRefusals = msgspec.field(default_factory=RecordRefusals)

    @staticmethod
    def of(offset: int, metadata: str | None) -> BatchMark:
        """Return the mark of a committed offset."""
        refusals = structs.decode(metadata.encode(), RecordRefusals) if metadata else RecordRefusals()
        return BatchMark(offset, refusals)

    @property
    def metadata(self) -> str:
        """The metadata of the committed offset; empty without refusals."""
        return msgspec.json.encode(self.refusals).decode() if self.refusals else ""
