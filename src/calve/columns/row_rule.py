"""A rule that the rows of a table must follow (`expect` of the Iceberg sink)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Literal

from calve.expression import Condition

__all__ = ["FAILED_RULES", "OnFailure", "RowRule"]

FAILED_RULES = "failed_rules"
"""The metadata attribute with the names of the rules that a row does not follow, and with which it is written."""
OnFailure = Literal["dlq", "null", "tag", "fail"]


@dataclass(frozen=True)
class RowRule:
    """A rule; NULL follows all checks of a column but `not_null`. Values are texts, read as those of the column.

    Attributes:
        name: Its name, unique among the rules of a table.
        column: The column, dotted within structs; empty: only the condition matters.
        on_failure: What becomes of a row that does not follow it.
        not_null: The column must have a value.
        among: The allowed values.
        matches: A regular expression that must match the whole text.
        minimum: The smallest value.
        maximum: The largest value.
        min_length: The smallest number of characters, or of elements.
        max_length: The largest number.
        unique: Columns whose values no other row of the batch has together; one with a NULL among them repeats none.
        condition: Must be true for the row, and its text.
        when: The rule is only for rows for which this is true.
        is_of_many: Whether the rule is for several tables, of which some may lack the column.
    """

    name: str
    column: str = ""
    on_failure: OnFailure = "dlq"
    not_null: bool = False
    among: tuple[str, ...] | None = None
    matches: str | None = None
    minimum: str | None = None
    maximum: str | None = None
    min_length: int | None = None
    max_length: int | None = None
    unique: tuple[str, ...] = ()
    condition: tuple[Condition, str] | None = None
    when: Condition | None = None
    is_of_many: bool = False

    @property
    def conditions(self) -> list[Condition]:
        """Its conditions."""
        return [*([self.when] if self.when else []), *([self.condition[0]] if self.condition else [])]

    @property
    def reads(self) -> frozenset[str]:
        """The columns that it reads, as far as they are known."""
        names = itertools.chain(*(condition.fields or () for condition in self.conditions))
        return frozenset(name for name in (self.column, *self.unique, *names) if name)

    @property
    def demand(self) -> str:
        """What it demands, as a sentence without its end."""
        demands = (
            ("not be NULL", self.not_null or None),
            (f"be one of {', '.join(self.among or ())}", self.among),
            (f"match {self.matches}", self.matches),
            (f"be at least {self.minimum}", self.minimum),
            (f"be at most {self.maximum}", self.maximum),
            (f"have a length of at least {self.min_length}", self.min_length),
            (f"have a length of at most {self.max_length}", self.max_length),
        )
        texts = [text for text, value in demands if value is not None]
        column = [f"{self.column} must {' and '.join(texts)}"] if texts else []
        column += [f"{', '.join(self.unique)} must be unique in the batch"] if self.unique else []
        return "; ".join([*column, *([f"{self.condition[1]} must be true"] if self.condition else [])])
