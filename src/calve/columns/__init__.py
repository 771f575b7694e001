"""Columns for the fields of events: inference, widening, evolution, and fields without a column."""
