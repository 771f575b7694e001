"""Rows of text in aligned columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

__all__ = ["columns"]

GAP = "  "


def columns(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a line for the headings and one for each row; a heading that begins with `>` aligns to the right."""
    names = [heading.lstrip(">") for heading in headings]
    widths = [max(map(len, cells)) for cells in zip(names, *rows, strict=True)]
    for cells in (names, *rows):
        padded = (
            cell.rjust(width) if heading.startswith(">") else cell.ljust(width)
            for heading, cell, width in zip(headings, cells, widths, strict=True)
        )
        yield GAP.join(padded).rstrip()
