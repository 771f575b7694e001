"""The option `expect` of the Iceberg sink: rules that the rows of a table must follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from calve.columns.row_rule import OnFailure, RowRule
from calve.errors import SettingsError
from calve.expression import Condition, compile_condition
from calve.expression.regex import require_pattern
from calve.settings import option

__all__ = ["Expectation", "row_rules"]


def _condition(text: str) -> Condition:
    """Compile a condition over the columns of a row.

    Raises:
        SettingsError: It is none, or reads metadata.
    """
    condition = compile_condition(text)
    if condition.metadata:
        raise SettingsError(
            "reads metadata, and a rule reads the columns of the row: let metadata_columns make it a column"
        )
    return condition


@dataclass(frozen=True)
class Expectation:
    """A rule that the rows of a table must follow. NULL follows all checks of a column but `not_null`."""

    name: str | None = option(
        None,
        "The name in dead letters, `calve status` and metrics. Default: column and checks.",
        minimum=1,
        maximum=100,
    )
    column: str | None = option(None, "The column; fields of structs are dotted.", minimum=1)
    not_null: bool = option(False, "The column has a value.")
    in_: list[str] | None = option(None, "The allowed values.", minimum=1)
    matches: str | None = option(None, "A regular expression (RE2) that matches the whole text.", check=require_pattern)
    min: str | None = option(None, "The smallest value: a number, a date or a time.", minimum=1)
    max: str | None = option(None, "The largest value.", minimum=1)
    min_length: int | None = option(None, "The smallest number of characters, or of elements of a list.", minimum=0)
    max_length: int | None = option(None, "The largest number of characters, or of elements of a list.", minimum=0)
    unique: list[str] = option(
        [],
        "Columns whose values no two rows of a batch have together; a row with a NULL among them is no repetition. The "
        "first row, in the order of the stream, follows the rule. A rule of its own, checked after all others.",
    )
    condition: str | None = option(
        None,
        "An expression that is true, over the columns of the row, e.g. `/shipped_at == null or /status == "
        '"shipped"`. Comparisons with NULL are false.',
        check=_condition,
    )
    when: str | None = option(
        None, "The rule is only for rows for which this expression is true. Default: all rows.", check=_condition
    )
    on_failure: OnFailure = option(
        "dlq",
        "What becomes of a row that does not follow the rule: `dlq`, a dead letter; `null`, the column becomes NULL; "
        "`tag`, it is written, and the metadata attribute `failed_rules` has the rule's name; `fail`, the pipeline "
        "ends.",
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse a rule that checks nothing, or nothing of a column."""
        of_column = self._checks
        if self.unique:
            yield from self._unique_faults()
        elif not of_column and self.condition is None:
            yield "", "checks nothing: set not_null, in, matches, min, max, min_length, max_length, unique or condition"
        elif of_column and self.column is None:
            yield "column", f"is missing: {' and '.join(of_column)} are for a column"
        elif self.column is None and self.on_failure == "null":
            yield "on_failure", "null needs a column, which becomes NULL"
        if self.on_failure == "null" and self.not_null:
            yield "on_failure", "null does not go with not_null: the value is NULL already"
        elif self.on_failure == "null" and "." in (self.column or ""):
            yield "on_failure", "null is for whole columns, not for fields of structs"
        if None not in (self.min_length, self.max_length) and self.min_length > self.max_length:  # type: ignore[operator]
            yield "min_length", "is larger than max_length"

    def _unique_faults(self) -> Iterator[tuple[str, str]]:
        if self.column is not None or self._checks or self.condition is not None:
            yield "unique", "is a rule of its own, with no column and no other check: name its columns here, as in [id]"
        if len(set(self.unique)) < len(self.unique) or "" in self.unique:
            yield "unique", "has a column twice, or one without a name"
        if self.on_failure == "null" and len(self.unique) > 1:
            yield "on_failure", "null is for one column: which one of unique becomes NULL is not said"
        elif self.on_failure == "null" and "." in self.unique[0]:
            yield "on_failure", "null is for whole columns, not for fields of structs"

    @property
    def label(self) -> str:
        """Its name."""
        checks = [*self.unique, "unique"] if self.unique else [*self._checks, *self._has_condition]
        return self.name or "_".join([*([self.column] if self.column else []), *checks])

    @property
    def _checks(self) -> list[str]:
        values = {
            "not_null": self.not_null or None,
            "in": self.in_,
            "matches": self.matches,
            "min": self.min,
            "max": self.max,
            "min_length": self.min_length,
            "max_length": self.max_length,
        }
        return [name for name, value in values.items() if value is not None]

    @property
    def _has_condition(self) -> list[str]:
        return ["condition"] if self.condition else []

    def rule(self, is_of_many: bool) -> RowRule:
        """Return it for the tasks; `is_of_many`: it is for several tables."""
        return RowRule(
            name=self.label,
            column=self.column or (self.unique[0] if len(self.unique) == 1 else ""),
            on_failure=self.on_failure,
            not_null=self.not_null,
            among=None if self.in_ is None else tuple(self.in_),
            matches=self.matches,
            minimum=self.min,
            maximum=self.max,
            min_length=self.min_length,
            max_length=self.max_length,
            unique=tuple(self.unique),
            condition=(_condition(self.condition), self.condition) if self.condition else None,
            when=_condition(self.when) if self.when else None,
            is_of_many=is_of_many,
        )


def row_rules(expect: Sequence[Expectation], is_of_many: bool) -> tuple[RowRule, ...]:
    """Return rules for the tasks."""
    return tuple(entry.rule(is_of_many) for entry in expect)
