"""`make screenshots`: pictures of the dashboard and of Spark's page for the documentation; needs a Chromium."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from calve.dashboard.access import AccessRules
from calve.dashboard.app import App
from calve.dashboard.history import SampleHistory
from calve.dashboard.server import Dashboard, history_file
from dashboard.states import ALL
from services import chromium

PICTURES = Path(__file__).parents[2] / "docs" / "images"
SHOTS = (
    ("healthy", "", 1100, False),
    ("healthy", "pipelines/orders", 1100, False),
    ("rejecting", "pipelines/orders/rejects", 1100, False),
    ("healthy", "pipelines/orders/table?name=shop.orders", 1100, False),
    ("lagging", "pipelines/orders", 1100, False),
    ("failing", "", 1100, True),
    ("failing", "pipelines/orders", 390, False),
)


ORDERS = """orders:
  source: {file: {path: "in/*.ndjson", tail: true}}
  sink: [{iceberg: {table_identifier: "shop.${/kind}", auto_create: true}}]
"""


def spark_page(browser: chromium.Browser, file: Path) -> None:
    """Run a pipeline with Spark's pages on, give it three files, and take the picture of its jobs."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        (directory / "in").mkdir()
        (directory / "orders.yaml").write_text(ORDERS)
        pages = ("--conf", "spark.ui.enabled=true", "--conf", "spark.ui.port=0")
        command = [sys.executable, "-m", "calve", "run", "orders.yaml", "--metrics-port", "0", *pages]
        run = subprocess.Popen(command, cwd=folder)
        try:
            for number in range(3):
                events = (f'{{"id": {n}, "kind": "{("sales", "returns")[n % 2]}"}}\n' for n in range(100_000))
                (directory / "in" / f"{number}.ndjson").write_text("".join(events))
                time.sleep(8)
            status = subprocess.run([*command[:3], "status"], cwd=folder, capture_output=True, text=True).stdout
            address = re.search(r"Spark's pages: (\S+)", status)
            assert address, status
            browser.look(1100, 800, False)
            browser.open(address[1] + "/jobs/")
            here = f"{PICTURES.parents[1]}/src/"
            browser.evaluate(f"document.body.innerHTML = document.body.innerHTML.replaceAll('{here}', '')")
            browser.picture(file)
        finally:
            run.send_signal(signal.SIGTERM)
            run.wait(60)


def main() -> None:
    """Write all pictures."""
    if chromium.find() is None:
        sys.exit("There is no Chromium. Install one (Debian: apt install chromium), or name it with CALVE_CHROMIUM")
    PICTURES.mkdir(parents=True, exist_ok=True)
    with chromium.browser() as browser:
        spark_page(browser, PICTURES / "spark-jobs.png")
        for name, path, width, dark in SHOTS:
            with tempfile.TemporaryDirectory() as folder:
                state = Path(folder) / "calve-state"
                ALL[name](state)
                app = App(str(state), SampleHistory(history_file(str(state))), AccessRules())
                with Dashboard(app, 0) as served:
                    browser.look(width, 800, dark)
                    browser.open(served.url + path)
                    browser.evaluate("document.querySelector('footer').remove()")  # the folder is a passing one
                    file = PICTURES / f"dashboard-{name}-{path.rpartition('/')[2].partition('?')[0] or 'overview'}.png"
                    browser.picture(file)
                    print(file)


if __name__ == "__main__":
    main()
