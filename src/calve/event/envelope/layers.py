"""SQL over envelopes in layers: what several expressions need is a column of the layer below, computed once."""

from __future__ import annotations

__all__ = ["Layers", "pointer", "quoted"]


def quoted(text: str) -> str:
    """Give a text as a SQL string."""
    return "'" + text.replace("'", "''") + "'"


def pointer(name: str) -> str:
    """Give a field's step of a JSON pointer."""
    return "/" + name.replace("~", "~0").replace("/", "~1")


class Layers:
    """Collects the columns of one SELECT over a relation `events` with the column `json`.

    Measured: without layers, a row of nine columns with three logical types takes 7.8 µs instead of 3.
    """

    def __init__(self) -> None:
        self._paths: dict[str, str] = {}
        self._looks: dict[str, str] = {}
        self._layers: list[dict[str, str]] = []

    def text(self, path: str) -> str:
        """Give the column of the JSON text at a path: NULL when absent, `null` when null."""
        return self._paths.setdefault(path, f"r{len(self._paths)}")

    def look(self, sql: str) -> str:
        """Give the column of an expression over `json`."""
        return self._looks.setdefault(sql, f"j{len(self._looks)}")

    def column(self, layer: int, sql: str) -> str:
        """Give the column of an expression over texts (layer 0), or over columns of lower layers."""
        while len(self._layers) <= layer:
            self._layers.append({})
        return self._layers[layer].setdefault(sql, f"v{layer}_{len(self._layers[layer])}")

    def select(self, columns: dict[str, str]) -> str:
        """Give the SELECT of named expressions over all of these."""
        paths = ", ".join(map(quoted, self._paths))
        read = [f"l[{number}]::VARCHAR AS {name}" for number, name in enumerate(self._paths.values(), 1)]
        read += [f"{sql} AS {name}" for sql, name in self._looks.items()]
        relation = f"(SELECT {', '.join(read)} FROM (SELECT json, json_extract(json, [{paths}]) AS l FROM events))"
        for layer in self._layers:
            added = "".join(f", {sql} AS {name}" for sql, name in layer.items())
            relation = f"(SELECT *{added} FROM {relation})"
        return f"SELECT {', '.join(f'{sql} AS {name}' for name, sql in columns.items())} FROM {relation}"
