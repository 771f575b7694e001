"""The counts of a batch."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["BatchCounts"]


@dataclass(frozen=True)
class BatchCounts:
    """The counts of a batch, taken once, when it is staged.

    Attributes:
        rejects: By table (`""` if none is known), then by code.
        nulled: Values that became NULL because they did not fit, by table, then by column.
        ignored: Events with a field that has no column, by table, then by field.
        examples: The reason of one reject, by table, then by code.
        reasons: Why one value became NULL, by table, then by column.
        failed_rules: Rows that a rule has rejected, tagged or changed, by table, then by rule.
        late: Events that were late, by table.
        derived_ids: How many documents an index got, if `document_id` has a value for none of them.
    """

    batch: int
    events: int
    bytes: int = 0
    unrouted: int = 0
    rejects: dict[str, dict[str, int]] = field(default_factory=dict)
    nulled: dict[str, dict[str, int]] = field(default_factory=dict)
    passed_over: int = 0
    dropped: int = 0
    added: int = 0
    duplicates: int = 0
    forgotten_keys: int = 0
    ignored: dict[str, dict[str, int]] = field(default_factory=dict)
    examples: dict[str, dict[str, str]] = field(default_factory=dict)
    reasons: dict[str, dict[str, str]] = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=dict)
    derived_ids: dict[str, int] = field(default_factory=dict)
    failed_rules: dict[str, dict[str, int]] = field(default_factory=dict)
