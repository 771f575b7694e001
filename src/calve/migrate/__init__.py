"""Translates the configuration of other programs into pipelines."""
