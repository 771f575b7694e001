"""Names of the columns that a batch of events has on its way."""

__all__ = [
    "EVENT",
    "JSON",
    "MALFORMED",
    "OPERATION",
    "ORDER",
    "ORIGINAL",
    "PICKED",
    "POSITION",
    "ROW",
    "SCHEMA",
    "SINK",
    "TYPED",
    "VERSION",
]

EVENT = "event"
"""binary, nullable: the original text of one event, byte for byte; null is an event without a value."""
TYPED = "_typed"
"""struct, in place of `event`, beside `_schema`: a row of a typed source, none of them null. Its text is made where it
is needed (`event.typed`)."""
ORIGINAL = "_original"
"""binary, only where events were made of envelopes: the envelope byte for byte, which dead letters keep."""
MALFORMED = "malformed"
"""string, optional: the reason why the source itself gives this row up; null for a sound one."""
JSON = "json"
"""string: text that DuckDB accepts as a JSON object; the event itself for all but odd rows."""
PICKED = "_picked"
"""dictionary of large string, only until events are routed: an object of the fields that routes and names read."""
ROW = "row"
"""int64: the position of a row in the batch it came with."""
SCHEMA = "_schema"
"""dictionary of string, only where envelopes may tell it: the schema of a row (`event.envelope.schema`); null: none."""
SINK = "for_sink"
"""int32, optional: the number of the only sink that may take an event; null: any sink."""
OPERATION = "_operation"
"""int8, only where a sink applies changes: what an event does to its row (`event.operation.Operation`)."""
ORDER = "_order"
"""int64, only where a sink applies changes: the place of an event among those of its task."""
POSITION = "_position"
"""int64, only while a batch is divided to find the events that make it fail: the event's position in the batch."""
VERSION = "event_version"
"""int64, only where a sink writes documents: the place of an event in the order of all (`event.version`). Kept as
metadata of dead letters, so that an old event that is sent again does not overwrite newer ones."""
