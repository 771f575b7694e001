"""Draws bars and curves as SVG."""

from __future__ import annotations

from collections.abc import Mapping
from xml.sax.saxutils import escape

from bench.measure import shown

WIDTH, LEFT, ROW, HEIGHT = 720, 180, 32, 320
COLORS = ("#2a6f97", "#c1666b", "#7a9e3f", "#8d6a9f", "#d4a373", "#555555")


def bars(title: str, values: Mapping[str, float]) -> str:
    """Return horizontal bars, one for each value."""
    most = max([*values.values(), 1e-9])
    shapes = []
    for number, (name, value) in enumerate(values.items()):
        y, width = 48 + number * ROW, (WIDTH - LEFT - 100) * value / most
        shapes.append(_text(LEFT - 8, y + 16, name, "end"))
        shapes.append(f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="22" fill="{COLORS[number % 6]}"/>')
        shapes.append(_text(LEFT + width + 6, y + 16, shown(value)))
    return _svg(title, shapes, 64 + len(values) * ROW)


def lines(title: str, curves: Mapping[str, list[tuple[float, float]]]) -> str:
    """Return curves over a common x axis, each scaled to its own highest value, which its name shows."""
    across = max(x for points in curves.values() for x, _ in points) or 1
    shapes = []
    for number, (name, points) in enumerate(curves.items()):
        most = max([*(y for _, y in points), 1e-9])
        places = (f"{40 + (WIDTH - 60) * x / across:.1f},{HEIGHT - 30 - 220 * y / most:.1f}" for x, y in points)
        color = COLORS[number % 6]
        shapes.append(f'<polyline points="{" ".join(places)}" fill="none" stroke="{color}"/>')
        shapes.append(_text(40 + 220 * number, 48, f"{name}, up to {shown(most)}", color=color))
    shapes.append(f'<path d="M40 60V{HEIGHT - 30}H{WIDTH - 20}" fill="none" stroke="#999"/>')
    return _svg(title, [*shapes, _text(WIDTH - 20, HEIGHT - 12, shown(across), "end")], HEIGHT)


def _text(x: float, y: float, text: str, anchor: str = "start", color: str = "#222") -> str:
    return f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}" fill="{color}">{escape(text)}</text>'


def _svg(title: str, shapes: list[str], height: int) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif"'
    ground = f'<rect width="{WIDTH}" height="{height}" fill="white"/>'
    return "\n".join([f'{head} font-size="13">', ground, _text(12, 24, title), *shapes, "</svg>", ""])
