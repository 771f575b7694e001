"""Sinks: their protocols and settings, and the kinds of sinks."""
