"""Keeps tables small and fast to read while pipelines write: convert, compact, expire, orphans."""
