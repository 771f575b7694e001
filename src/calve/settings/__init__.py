"""One declaration per option, and what follows from it."""

from calve.settings.option import Size, option
from calve.settings.parse import parse, parse_text
from calve.settings.pipeline import Parsed, PipelineSettings, Plugin, Plugins, SinkEntry
from calve.settings.problems import Location, Problem, SettingsErrors

__all__ = [
    "Location",
    "Parsed",
    "PipelineSettings",
    "Plugin",
    "Plugins",
    "Problem",
    "SettingsErrors",
    "SinkEntry",
    "Size",
    "option",
    "parse",
    "parse_text",
]
