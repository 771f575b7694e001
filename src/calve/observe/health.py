"""`/healthz` and `/readyz`: whether the pipelines of a process are alive, and whether they read and commit events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from calve.observe.report import State

__all__ = ["STUCK_SECONDS", "Health", "alive", "ready"]

STUCK_SECONDS = 900.0
"""A pipeline without any activity for this time, not even polling, hangs: one batch takes far less."""


@dataclass(frozen=True)
class Health:
    """The health of one pipeline.

    Attributes:
        quiet_seconds: Time since its last activity; a pipeline that waits for events polls several times a second.
        held: Why tables cannot be committed, by table.
        error: What ended it, or what it is retrying.
        refusing: Why its source refuses new events at the moment.
        wrong: All that is wrong with it (`problems`), also what does not keep it from accepting and committing events.
    """

    state: State = "starting"
    quiet_seconds: float = 0.0
    held: Mapping[str, str] = field(default_factory=dict)
    error: str = ""
    refusing: str = ""
    wrong: Sequence[str] = ()

    @property
    def is_stuck(self) -> bool:
        """Whether the pipeline hangs."""
        return self.state not in ("stopped", "failed") and self.quiet_seconds > STUCK_SECONDS


def alive(pipelines: Mapping[str, Health]) -> tuple[int, dict[str, Any]]:
    """Return the HTTP status and the answer of `/healthz`: 503 with the pipelines that failed or hang."""
    wrong = {
        name: _complaint(health) for name, health in pipelines.items() if health.state == "failed" or health.is_stuck
    }
    return (503, {"status": "failed", "pipelines": wrong}) if wrong else (200, {"status": "ok"})


def ready(pipelines: Mapping[str, Health]) -> tuple[int, dict[str, Any]]:
    """Return the HTTP status and the answer of `/readyz`: 503 unless all pipelines run and accept events."""
    is_ready = bool(pipelines) and all(
        health.state in ("running", "waiting") and not (health.held or health.refusing) for health in pipelines.values()
    )
    states = {name: _summary(health) for name, health in pipelines.items()}
    return 200 if is_ready else 503, {"status": "ready" if is_ready else "not ready", "pipelines": states}


def _complaint(health: Health) -> str:
    return (
        f"has done nothing for {health.quiet_seconds:.0f} s while {health.state}"
        if health.is_stuck
        else health.error or "failed"
    )


def _summary(health: Health) -> dict[str, Any]:
    return {
        "state": health.state,
        **({"held": dict(health.held)} if health.held else {}),
        **({"error": health.error} if health.error else {}),
        **({"refusing": health.refusing} if health.refusing else {}),
        **({"wrong": list(health.wrong)} if health.wrong else {}),
    }
