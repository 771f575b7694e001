"""The phase that reads tables again, while the others go on; `reload.py` has its steps."""

from __future__ import annotations

from typing import Any

from calve.errors import CalveError, SourceUnavailableError, Verdict
from calve.sources.database.comparing import DatabaseComparing
from calve.sources.database.following import Following
from calve.sources.database.loading import Loading
from calve.sources.database.parts import Parts
from calve.sources.database.reload import ReloadRequest
from calve.sources.database.system import ANY, STEP, DatabaseSystem
from calve.sources.source import Position
from calve.stop_point import stop_at

__all__ = ["RequestedReloads"]


class RequestedReloads:
    """Begins reloads that somebody asks for, one after the other (the pipeline's thread).

    Args:
        parts: What the phases share.
        system: The database.
        following: Halts, and goes on with the new descriptions of the tables.
        loading: Gets their chunks.

    Attributes:
        comparing: The tables that are compared with their targets.
    """

    def __init__(self, parts: Parts, system: DatabaseSystem, following: Following, loading: Loading) -> None:
        self._parts, self._system, self._following, self._loading = parts, system, following, loading
        self.comparing = DatabaseComparing(
            parts.load, parts.reloads, self.add, lambda: loading.stop_unreadable(now=True, is_again=False)
        )

    def add(self, begun: dict[str, Any]) -> None:
        """Go on with a load that has the chunks of the tables, or refuses them."""
        self._loading.add(begun)
        stop_at("reload.after-begun")
        self._parts.reloads.finish()

    def emptied(self, is_complete: bool) -> None:
        """Load the tables: their rows were removed from all targets, or else the new ones replace them."""
        self.add(self._parts.reloads.loading(self._parts.load.begun, not is_complete))

    def begin_requested(self) -> None:
        """Begin to read tables again, if somebody asks for it, and nothing is being loaded.

        Raises:
            CalveError: In a run with `once`, they cannot be read yet.
        """
        reloads, stream, load = self._parts.reloads, self._following.stream, self._parts.load
        if reloads.note is None:
            is_free = load.is_done and not load.comparing and stream.failed is None
            wanted = reloads.wanted(self._parts.number) if is_free else None
            if wanted is None and stream.has_halted:
                self._following.restart()
            if wanted is None or (self._parts.settings.transactional and not stream.halt()):
                return
            stream.stop()
            if not self._begin(*wanted):
                return
        if not reloads.is_applied:
            reloads.apply()
            self._loading.forget_unreadable()
            self._following.restart()

    def is_drained(self, position: Position | None) -> bool:
        """Return whether everything from before a reload is planned; from then on the tables can be loaded."""
        reloads = self._parts.reloads
        if reloads.note is None or self._following.next(position, 1):
            return False
        reloads.is_drained = True
        return True

    def _begin(self, name: str, request: ReloadRequest) -> bool:
        """Write down that tables are read again; if they cannot be, go on without.

        Raises:
            CalveError: In a run with `once`, they cannot be read yet.
        """
        parts, reloads = self._parts, self._parts.reloads
        try:
            if (until := self._system.loaded_until()) < ANY:
                parts.load.keep(until)
                beginning = self._system.begin_reload(request.narrowed(parts.settings)).of(request)
            if until == ANY or (beginning.start, 0) < parts.log.positions.last.order:
                raise SourceUnavailableError(f"{self._system.name} is not ready to load tables", step=STEP)
        except CalveError as error:
            self._following.restart()
            if parts.once and error.verdict is Verdict.AGAIN:
                raise
            reloads.failed(name, request, error)
            return False
        reloads.begin(name, parts.load.begun, beginning, request.compares)
        self._following.until = beginning.end
        return True
