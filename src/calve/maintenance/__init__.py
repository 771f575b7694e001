"""Keeps tables small and quick to read while pipelines write on: convert, compact, expire, orphans."""
