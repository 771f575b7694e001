"""The tags that a registry has beside a schema, in its metadata: they become those of the fields that are decoded."""

from __future__ import annotations

import fnmatch
import functools
from dataclasses import replace

import pyarrow as pa

from calve.event.envelope.schema import Field, field_of, text_of
from calve.serde.format import DecodedValues, DecodePlan

__all__ = ["TaggedPlan"]

_Tags = tuple[tuple[str, tuple[str, ...]], ...]


class TaggedPlan:
    """A plan of a schema with metadata (`DecodePlan`).

    A pattern such as `shop.Person.ssn` or `**.ssn` counts by its last name alone, wherever a field has it: paths of
    registries differ by format, and a tag that is found too often hides more, not less.

    Args:
        plan: Decodes values.
        tags: Patterns of fields, each with their tags.
    """

    def __init__(self, plan: DecodePlan, tags: _Tags) -> None:
        self._plan = plan
        names = tuple((pattern.rpartition(".")[2], of) for pattern, of in tags)
        self._tagged = functools.lru_cache(64)(lambda text: text_of(_with_tags(field_of(text), names)))

    def decode(self, values: pa.Array, start: int) -> DecodedValues:
        """Decode values; see `calve.serde.format.DecodePlan`."""
        decoded = self._plan.decode(values, start)
        parts = [part._replace(declaration=self._tagged(part.declaration)) for part in decoded.parts]
        return decoded._replace(parts=parts)


def _with_tags(field: Field, names: _Tags) -> Field:
    more = [tag for name, tags in names if field.name and fnmatch.fnmatchcase(field.name, name) for tag in tags]
    inside = tuple(_with_tags(inner, names) for inner in field.fields)
    return replace(field, fields=inside, tags=tuple(dict.fromkeys([*field.tags, *more])))
