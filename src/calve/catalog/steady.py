"""Commits whatever the clock says (`Steady.java`).

Iceberg refuses a commit that is a minute older than the last one. So a clock that was set back would stop all commits
until it has come that far again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from calve.engine.java.compiled import java_class
from calve.engine.java.errors import called, java_errors
from calve.errors import CommitConflictError, CommitError, InvariantError

__all__ = ["Steady"]


class Steady:
    """Loads tables that accept commits although their last one is in the future.

    Args:
        jvm: The JVM of Spark's driver.

    Attributes:
        java: The Java object, a function from a loaded table to one that accepts commits.
    """

    def __init__(self, jvm: Any) -> None:
        self.java = java_class(jvm, __name__, "Steady").newInstance()

    def load(self, java_catalog: Any, identifier: str) -> Any:
        """Return the Java table; raises what py4j raises."""
        return called(self.java, "load", java_catalog, identifier)

    @contextmanager
    def commits(self, java_table: Callable[[], Any]) -> Iterator[None]:
        """Turn errors of a commit into a conflict if the clock was set back since the table was loaded.

        Args:
            java_table: Returns the Java table.

        Raises:
            CommitConflictError: It was; the next try loads the table again, and succeeds.
        """
        try:
            yield
        except (CommitError, InvariantError) as error:  # Iceberg's exception has no class of its own
            with java_errors("catalog"):
                is_late = self.java.isLate(java_table())
            if is_late and not isinstance(error, CommitConflictError):
                raise CommitConflictError("The clock was set back during a commit", step=error.step) from error
            raise
