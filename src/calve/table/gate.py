"""When the rows of a branch are published to `main`: the rules of the option `publish`, and what they make of commits.

A pure function of figures that each commit leaves in the summary of its snapshot (`calve.gate`), so that every run and
every command come to the same verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import msgspec

from calve.observe.humanize import duration, many

__all__ = ["CommitGate", "Figures", "Judge", "RuleVerdict"]

_METRICS = "write.metadata.metrics."
_STATISTICS = "write.parquet.stats-enabled.column."


@dataclass(frozen=True)
class CommitGate:
    """The rules of one table.

    Attributes:
        min_rows: Commits are judged, and published, together as soon as they have so many rows.
        max_null_share: By column the greatest share of NULLs in what is judged together.
        time_column: The column with the time of an event; empty: there is no rule about it.
        max_age: The greatest age of the newest time of what is published.
    """

    min_rows: int = 0
    max_null_share: Mapping[str, float] = field(default_factory=dict)
    time_column: str = ""
    max_age: timedelta = timedelta(0)

    @property
    def columns(self) -> list[str]:
        """The columns that its rules read."""
        return [*self.max_null_share, *([self.time_column] if self.time_column else [])]

    def with_metrics(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return write properties with which files count NULLs of its columns, and bound the time."""
        modes = dict.fromkeys(self.max_null_share, "counts") | ({self.time_column: "full"} if self.time_column else {})
        default = properties.get(f"{_METRICS}default", "truncate(16)").strip().lower()
        changed = {key: text for key, text in properties.items() if key.removeprefix(_STATISTICS) not in modes}
        for name, least in modes.items():
            mode = properties.get(f"{_METRICS}column.{name}", default).strip().lower()
            changed[f"{_METRICS}column.{name}"] = (
                least if mode == "none" or (mode, least) == ("counts", "full") else mode
            )
        return changed


class Figures(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a commit says of the rows that it adds; the JSON in the summary of its snapshot.

    Attributes:
        at: When it was judged, in milliseconds since the epoch.
        rows: Its rows.
        nulls: The NULLs, by column; without those in `absent`, and those that files do not count.
        newest: The latest time of the column with times, in microseconds since the epoch; None: there is none.
        main: The snapshot of `main` before it; None: there was none, or it was not an ancestor of the branch.
        absent: The columns of rules that the table does not have.
    """

    at: int
    rows: int
    nulls: dict[str, int] = {}
    newest: int | None = None
    main: int | None = None
    absent: tuple[str, ...] = ()


class RuleVerdict(msgspec.Struct, frozen=True):
    """What one rule says.

    Attributes:
        rule: Its name; of shares of NULLs with the column: `max_null_share.email`.
        holds: Whether it holds; None: there are not enough rows yet to judge.
        text: The figure and the bound, for people.
        figure: The figure: rows, a share, or seconds.
        snapshot: The snapshot that was judged, with those before it.
    """

    rule: str
    holds: bool | None
    text: str
    figure: float = 0.0
    snapshot: int = 0

    @property
    def blocks(self) -> bool:
        """Whether it keeps back what waits whatever comes: neither more rows nor newer ones mend it."""
        return self.holds is False and self.rule not in (_ROWS, _FRESHNESS)

    @property
    def word(self) -> str:
        """`holds`, `waits` or `fails`."""
        return "holds" if self.holds else "fails" if self.blocks else "waits"


_ROWS = "min_rows"
_FRESHNESS = "freshness"
_JUDGED = "judged"
_DELETES = "deletes"


def _no_column(rule: str, column: str) -> RuleVerdict:
    """Return the verdict of a rule that does not count."""
    return RuleVerdict(rule, True, f"the table has no column {column}")


class Judge:
    """Judges the snapshots that a branch has and `main` lacks, oldest first.

    Args:
        gate: The rules.
        waiting: The snapshots, each with its figures, or with its rows if it has none; None: it only deletes rows. Then
            it is published with the next one that has figures: its rows may replace those.

    Attributes:
        publishable: The last snapshot up to which all rules hold; None: there is none.
        commits: How many wait after it.
        rows: Their rows.
        verdicts: What each rule says after the last commit; one that blocks stays.
    """

    def __init__(self, gate: CommitGate, waiting: Iterable[tuple[int, Figures | int | None]] = ()) -> None:
        self._gate = gate
        self._begin()
        self.publishable: int | None = None
        for snapshot, figures in waiting:
            self.add(figures, snapshot)

    def _begin(self) -> None:
        self._group, self._nulls = 0, dict.fromkeys(self._gate.max_null_share, 0)
        self._newest: int | None = None
        self.verdicts: dict[str, RuleVerdict] = {}
        self.commits = self.rows = 0

    def add(self, figures: Figures | int | None, snapshot: int = 0) -> list[RuleVerdict]:
        """Judge one more snapshot; return what each rule says of it and of those that are judged with it."""
        if not self.commits:
            self._begin()
        self.commits += 1
        if isinstance(figures, Figures):
            self.rows += figures.rows
            self.verdicts.pop(_DELETES, None)
            rules = self._known(figures)
        else:
            self.rows += figures or 0
            rules = self._unknown(figures)
        verdicts = [msgspec.structs.replace(verdict, snapshot=snapshot) for verdict in rules]
        for verdict in verdicts:
            before = self.verdicts.get(verdict.rule)
            self.verdicts[verdict.rule] = before if before is not None and before.blocks else verdict
        if all(verdict.holds for verdict in self.verdicts.values()):
            self.publishable, self.commits, self.rows = snapshot, 0, 0
        return verdicts

    def _unknown(self, rows: int | None) -> Iterator[RuleVerdict]:
        """Judge a snapshot without figures; one that adds no rows, and deletes none, changes nothing."""
        if rows is None:
            yield RuleVerdict(_DELETES, None, "deletes alone are published with the next commit")
        elif rows:
            yield RuleVerdict(_JUDGED, False, f"{many(rows, 'row')} of a commit that nobody has judged", rows)

    def _known(self, figures: Figures) -> Iterator[RuleVerdict]:
        self._group += figures.rows
        for name in self._nulls:
            self._nulls[name] += figures.nulls.get(name, 0)
        yield from self._by_rows(figures)
        yield from self._by_time(figures)

    def _by_rows(self, figures: Figures) -> Iterator[RuleVerdict]:
        """Judge a group of commits if it has enough rows; then the next group begins."""
        least, rows = self._gate.min_rows, self._group
        is_enough = rows >= least
        if least:
            yield RuleVerdict(_ROWS, is_enough, f"{rows:,} of at least {many(least, 'row')}", rows)
        for name, most in self._gate.max_null_share.items():
            rule = f"max_null_share.{name}"
            if name in figures.absent:
                yield _no_column(rule, name)
            elif name in figures.nulls:
                nulls = self._nulls[name]
                share = nulls / rows if rows else 0.0
                text = f"{name} is NULL in {nulls:,} of {many(rows, 'row')} ({share:.3%}), at most {most:.3%}"
                yield RuleVerdict(rule, share <= most if is_enough else None, text, share)
            elif figures.rows:
                yield RuleVerdict(rule, False, f"NULLs of {name} were not counted in {many(figures.rows, 'row')}")
        if is_enough:
            self._group, self._nulls = 0, dict.fromkeys(self._nulls, 0)

    def _by_time(self, figures: Figures) -> Iterator[RuleVerdict]:
        column, most = self._gate.time_column, self._gate.max_age
        if not column or not self.rows:
            return
        if column in figures.absent:
            yield _no_column(_FRESHNESS, column)
            return
        self._newest = max((at for at in (self._newest, figures.newest) if at is not None), default=None)
        if self._newest is None:
            yield RuleVerdict(_FRESHNESS, False, f"no row has a value of {column}")
            return
        seconds = figures.at / 1000 - self._newest / 1_000_000
        age = f"{duration(seconds)} old" if seconds >= 0 else f"{duration(-seconds)} in the future"
        text = f"the newest {column} is {age}, at most {duration(most.total_seconds())}"
        yield RuleVerdict(_FRESHNESS, seconds <= most.total_seconds(), text, seconds)
