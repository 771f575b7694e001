"""Names of the columns of a batch of events, from reading to writing."""

__all__ = [
    "EVENT",
    "JSON",
    "KEY",
    "MALFORMED",
    "MASKED",
    "OPERATION",
    "ORDER",
    "ORIGINAL",
    "PART",
    "PICKED",
    "POSITION",
    "ROW",
    "SCHEMA",
    "SINK",
    "TYPED",
    "VERSION",
    "WITHHELD",
    "WORKING_COLUMNS",
]

EVENT = "event"
"""binary, nullable: the original text of an event, byte for byte; null for an event without a value."""
TYPED = "_typed"
"""struct, not null, instead of `event`, beside `_schema`: a row of a typed source. Its text is made only when it is
needed (`event.typed`)."""
ORIGINAL = "_original"
"""binary, only if events come from envelopes or processors: what was read, byte for byte, for dead letters; a struct if
processors changed the columns of typed rows, then its text is made when it is needed."""
PART = "event_part"
"""string, only if a processor splits events: which part of the original event this is, as in `0.2`; null: the whole.
Parts that a fed pipeline's processors made come after a slash, as in `0.2/1`. Dead letters keep it as metadata, so that
a replay writes only this part."""
MALFORMED = "malformed"
"""string, optional: the reason why the source rejects this row; null for a valid row."""
MASKED = "event_masked"
"""dictionary of string, only where columns are masked: the names in the masks, as a JSON list, the same for all rows of
a batch. Dead letters keep it as metadata: a replay takes the event as a decoded row, and does not mask these again."""
JSON = "json"
"""string: text that DuckDB accepts as a JSON object; the event itself for all but a few rows."""
PICKED = "_picked"
"""dictionary of large string, only until events are routed: a JSON object of the fields that routes and names read."""
KEY = "_key"
"""dictionary of string, only if the record's key has the columns of a table's key: a struct of these columns
(`event.envelope.schema`), of kind `event.keyed.exact.ANY` where values decide; null: the record has no such key."""
ROW = "row"
"""int64: the position of a row in its source batch."""
SCHEMA = "_schema"
"""dictionary of string, only if envelopes or rows have one: the schema of a row (`event.envelope.schema`), or null."""
SINK = "for_sink"
"""int32, optional: the number of the only sink that gets an event; null: any sink."""
OPERATION = "_operation"
"""int8, only if a sink applies changes: the `event.operation.Operation` of an event."""
ORDER = "_order"
"""int64, only if a sink applies changes: the position of an event among those of its task."""
POSITION = "_position"
"""int64, only while a batch is divided to find the events that fail it: the event's position in the batch."""
VERSION = "event_version"
"""int64, only if a sink writes documents: the version of an event (`event.document_version`). Dead letters keep it as
metadata, so that an old event that is replayed does not overwrite newer ones."""
WITHHELD = "withheld_bytes"
"""int64, only for rejects: the length of an event that cannot be masked, whose text is withheld."""
WORKING_COLUMNS = frozenset(
    {
        EVENT, TYPED, ORIGINAL, PART, MALFORMED, JSON, KEY, PICKED, ROW, SCHEMA, SINK, OPERATION, ORDER, POSITION,
        VERSION, MASKED, WITHHELD,
    }
)  # fmt: skip
"""All of these; a metadata attribute has another name."""
