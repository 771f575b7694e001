"""Tells a task's process which values of its job are secret, so that its log lines and errors lack them, too."""

from __future__ import annotations

import dataclasses
from typing import Any

from calve import credentials
from calve.task.job import Job

__all__ = ["remember_secrets"]

_DEEPEST = 6
_MOST = 1_000
"""The most entries of a list that are inspected: settings have fewer."""
_pipelines: set[str] = set()


def remember_secrets(job: Job) -> None:
    """Remember the secret options of a pipeline's source, masks and sinks, once in a process."""
    if job.pipeline not in _pipelines:
        _pipelines.add(job.pipeline)
        _remember((job.reader, job.serde, job.masks, job.sinks), _DEEPEST)


def _remember(value: Any, depth: int) -> None:
    if depth and isinstance(value, tuple | list):
        for item in value[:_MOST]:
            _remember(item, depth - 1)
    elif depth and dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            inner, option = getattr(value, field.name, None), field.metadata.get("option")
            if isinstance(inner, str) or (isinstance(inner, dict) and all(isinstance(key, str) for key in inner)):
                credentials.remember(inner, is_secret=option is not None and option.secret)
            else:
                _remember(inner, depth - 1)
