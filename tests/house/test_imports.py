import subprocess
import sys
from pathlib import Path

DRIVER = {"acknowledge", "catalog", "cli", "commit", "ledger", "maintenance", "operate", "pipeline"}
SOURCES = ("file", "http", "iceberg", "kafka")


def test_imports_point_one_way() -> None:
    law = Path(__file__).with_name("imports.ini")
    # A process of its own: the linter sets up logging and silences the loggers of other tests.
    command = [Path(sys.executable).with_name("lint-imports"), "--config", law, "--no-cache"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_executor_code_imports_no_driver_code() -> None:
    modules = "calve.task.task", "calve.sinks.opensearch.documents", *(f"calve.sources.{one}.reader" for one in SOURCES)
    program = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    rooms = {tuple(name.split(".")[:2]) for name in ran.stdout.split()}
    assert ("calve", "task") in rooms
    assert sorted(room for kind, *rest in rooms for room in rest if kind == "calve" and room in DRIVER) == []
