"""`make screenshots`: pictures of the dashboard for the documentation; needs a Chromium."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from calve.dashboard.access import Access
from calve.dashboard.app import App
from calve.dashboard.history import History
from calve.dashboard.server import Dashboard, history_file
from dashboard.states import ALL
from services import chromium

PICTURES = Path(__file__).parents[2] / "docs" / "images"
SHOTS = (
    ("healthy", "", 1100, False),
    ("healthy", "pipelines/orders", 1100, False),
    ("healthy", "pipelines/orders/rejects", 1100, False),
    ("lagging", "pipelines/orders", 1100, False),
    ("failing", "", 1100, True),
    ("failing", "pipelines/orders", 390, False),
    ("empty", "", 1100, False),
)


def main() -> None:
    """Write all pictures."""
    if chromium.find() is None:
        sys.exit("There is no Chromium. Install one (Debian: apt install chromium), or name it with CALVE_CHROMIUM")
    PICTURES.mkdir(parents=True, exist_ok=True)
    with chromium.browser() as browser:
        for name, path, width, dark in SHOTS:
            with tempfile.TemporaryDirectory() as folder:
                state = Path(folder) / "calve-state"
                ALL[name](state)
                app = App(str(state), History(history_file(str(state))), Access())
                with Dashboard(app, 0) as served:
                    browser.look(width, 800, dark)
                    browser.open(served.url + path)
                    browser.evaluate("document.querySelector('footer').remove()")  # the folder is a passing one
                    file = PICTURES / f"dashboard-{name}-{path.rpartition('/')[2] or 'overview'}.png"
                    browser.picture(file)
                    print(file)


if __name__ == "__main__":
    main()
