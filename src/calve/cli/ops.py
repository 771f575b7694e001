"""`calve ops`."""

from __future__ import annotations

import json

import click

from calve.cli import options
from calve.cli.help import Command
from calve.cli.output import echo

__all__ = ["ops"]


@click.command(cls=Command)
@click.argument("what", type=click.Choice(["alerts", "grafana", "metrics"]))
@options.debug
def ops(what: str) -> None:
    """Print files for monitoring: alerting rules, a dashboard, or the list of all metrics.

    The rules are for Prometheus, the dashboard is for Grafana (Dashboards, New, Import). The list is Markdown.

    Examples:
      calve ops alerts > calve-alerts.yaml
      calve ops grafana > calve.json
      calve ops metrics
    """
    from calve.observe import monitoring  # here, so that `calve ops --help` is fast

    if what == "grafana":
        echo(json.dumps(monitoring.dashboard(), indent=2))
    else:
        echo(monitoring.alerts() if what == "alerts" else monitoring.page(), nl=False)
