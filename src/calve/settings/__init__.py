"""One declaration per option, and what follows from it."""

from calve.settings.option import Size, option

__all__ = ["Size", "option"]
