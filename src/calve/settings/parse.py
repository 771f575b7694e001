"""Reads a configuration: YAML files in, pipelines out, or all errors at once."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from calve.settings.assemble import Assembly
from calve.settings.connectors import Ends, faults, joined
from calve.settings.files import Merged
from calve.settings.masked import masked_yaml
from calve.settings.node import YamlNode
from calve.settings.pipeline import Parsed, PipelineSettings, Plugins
from calve.settings.problems import Location, SettingsErrors, SettingsProblem, shown

__all__ = ["DATA_PREPPER", "TOP_LEVEL", "parse", "parse_text"]

DATA_PREPPER = (2, 17)
"""The version of Data Prepper whose YAML this is; `version:` may not ask for a newer one."""
TOP_LEVEL = ("version", "pipeline_configurations", "extension")
"""Top-level keys that are no pipelines."""
_PARTS = ("source", "processor", "processors", "route", "routes", "sink")
"""Keys of a pipeline, which stand at the top only by mistake."""
RESERVED = ("data-prepper", "dataPrepper", "core")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_VERSION = re.compile(r"([0-9]{1,6})(?:\.([0-9]{1,6}))?")


def parse(path: str | Path, plugins: Plugins, environment: Mapping[str, str] | None = None) -> Parsed:
    """Read the pipelines of a YAML file, or of all `*.yaml` and `*.yml` files in a folder.

    Args:
        path: The file or folder, as the user named it; errors begin with it.
        plugins: What the pipelines may use.
        environment: The variables of `${env:NAME}`; the process's environment if not given.

    Raises:
        SettingsErrors: With everything that is wrong.
    """
    merged = Merged(os.environ if environment is None else environment)
    merged.add_path(Path(path))
    return _parsed(merged, plugins, str(path))


def parse_text(
    text: str, plugins: Plugins, name: str = "<text>", environment: Mapping[str, str] | None = None
) -> Parsed:
    """Read pipelines from YAML text; `name` stands for the file in errors. Else as `parse`."""
    merged = Merged(os.environ if environment is None else environment)
    merged.add_text(text, name)
    return _parsed(merged, plugins, name)


def _parsed(merged: Merged, plugins: Plugins, source: str) -> Parsed:
    problems = merged.problems
    warnings: list[SettingsProblem] = []
    pipelines: list[PipelineSettings | None] = []
    ends: list[Ends | None] = []
    for name, node in merged.entries.items():
        if name in TOP_LEVEL:
            _check_top_level(name, node, problems, warnings)
            continue
        if name in _PARTS and not (isinstance(node.value, dict) and "source" in node.value):
            problems.append(SettingsProblem(node.at, name, "indent it below the name of a pipeline"))
            continue
        if refused := _refused_name(name):
            problems.append(SettingsProblem(node.at, name, refused))
        assembly = Assembly(plugins, name)
        pipelines.append(assembly.pipeline(node))
        ends.append(assembly.ends)
        problems += assembly.binder.problems
        warnings += assembly.binder.warnings
    if not pipelines and not problems:
        problems.append(SettingsProblem(Location(source), "", "no pipeline is defined"))
    problems += faults(list(filter(None, ends)), merged.entries.keys() - {*TOP_LEVEL})
    if not problems:
        valid = list(filter(None, pipelines))
        whole, problems = joined(valid)
        problems += plugins.faults(whole, {pipeline.name: pipeline for pipeline in valid})
    if problems:
        raise SettingsErrors(map(merged.without_secrets, problems))
    whole = [
        replace(
            parsed_pipeline,
            shown=masked_yaml(
                {name: merged.entries[name] for name in (parsed_pipeline.name, *parsed_pipeline.feeds)}, plugins
            ),
        )
        for parsed_pipeline in whole
    ]
    return Parsed(whole, sorted(map(merged.without_secrets, warnings)))


def _check_top_level(
    name: str, node: YamlNode, problems: list[SettingsProblem], warnings: list[SettingsProblem]
) -> None:
    if name != "version":
        warnings.append(SettingsProblem(node.at, name, "is ignored; Calve has no extensions"))
        return
    version = _VERSION.fullmatch(node.text)
    if version is None:
        problems.append(SettingsProblem(node.location, name, 'expected a version such as "2"'))
    elif (int(version[1]), int(version[2] or 0)) > DATA_PREPPER:
        current = ".".join(map(str, DATA_PREPPER))
        message = f"the version {node.text} is not compatible with the current version {current}"
        problems.append(SettingsProblem(node.location, name, message))


def _refused_name(name: str) -> str:
    if name in RESERVED:
        return f"this name is reserved; a pipeline cannot be called {', '.join(RESERVED)}"
    if not _NAME.fullmatch(name):
        return f"{shown(name)} cannot name a pipeline: use up to 128 ASCII letters, digits, `-`, `_` and `.`"
    return ""
