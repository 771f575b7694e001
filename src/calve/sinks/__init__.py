"""Sinks: their settings, and what differs from sink to sink."""
