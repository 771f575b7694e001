"""One declaration per option, and what follows from it."""

from calve.settings.connectors import FromPipeline, ToPipeline
from calve.settings.option import Size, option
from calve.settings.parse import parse, parse_text
from calve.settings.pipeline import Parsed, PipelineSettings, Plugin, Plugins, SinkEntry, named, only
from calve.settings.problems import Location, SettingsErrors, SettingsProblem
from calve.settings.reference import reference
from calve.settings.schema import json_schema

__all__ = [
    "FromPipeline",
    "Location",
    "Parsed",
    "PipelineSettings",
    "Plugin",
    "Plugins",
    "SettingsErrors",
    "SettingsProblem",
    "SinkEntry",
    "Size",
    "ToPipeline",
    "json_schema",
    "named",
    "only",
    "option",
    "parse",
    "parse_text",
    "reference",
]
