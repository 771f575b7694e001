"""`calve run`."""

from __future__ import annotations

import shlex
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from calve.cli import failures, options
from calve.cli.help import Command
from calve.cli.signals import run_until_asked, sigterm_exits
from calve.compiled import library
from calve.engine.jvm import jdk
from calve.engine.jvm.master import is_local, master_of
from calve.errors import EngineError
from calve.observe.log import Log, configure
from calve.operate.bundle import settings as bundle_settings
from calve.settings import Parsed, parse

__all__ = ["run"]

_RUN_OPTIONS = ("state", "master", "conf", "once", "give_up_after", "standby", "allow_empty")


@click.command(cls=Command)
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option("--once", is_flag=True, help="Read what is in the sources now, commit it, and exit.")
@click.option("--standby", is_flag=True, help="Wait while another run has the state, and continue when it is gone.")
@click.option("--allow-empty", is_flag=True, help="With --once, end with exit code 0 even if there is no file to read.")
@options.give_up_after
@options.state
@options.master
@options.conf
@click.option(
    "--bundle",
    metavar="PATH",
    help="File of `calve bundle` for the executors of a cluster: a path, or a URL they can read.",
)
@click.option("--json", "json_log", is_flag=True, help="Log JSON objects, one per line, instead of text.")
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    default=9600,
    show_default=True,
    help="Port of /metrics (Prometheus), /healthz and /readyz.",
)
@click.option("--metrics-host", default="127.0.0.1", show_default=True, help="Address of this port.")
@click.option("--dashboard", is_flag=True, help="Also start calve dashboard, in a process of its own.")
@click.option(
    "--dashboard-port", type=click.IntRange(1, 65535), default=9601, show_default=True, help="Port of the dashboard."
)
@options.debug
@click.pass_context
def run(ctx: click.Context, /, path: Path, json_log: bool, **chosen: Any) -> None:
    """Run the pipelines of a YAML file, or of all YAML files in a folder.

    Without --once they run until Ctrl-C or SIGTERM. Then Calve commits what it has read and exits with code 0. Even
    after a crash, the next run continues after the last commit: nothing is lost, nothing is duplicated. With --once the
    exit code is 3 if no file matches the path of a source, or none has a known extension.

    Examples:
      calve run orders.yaml
      calve run pipelines/ --once --give-up-after 5m --state /var/lib/calve
      calve run orders.yaml --master 'local[4]' --conf spark.driver.memory=2g
      calve run orders.yaml --state s3://bucket/calve --standby
      calve run orders.yaml --master spark://host:7077 --bundle calve.tar.gz --state s3://bucket/calve
      curl -s localhost:9600/metrics
      curl -s localhost:9600/readyz
    """
    from calve.engine.jvm.process import abandon_all, start_early  # here, so that `calve run --help` is fast
    from calve.pipeline.plugins import PLUGINS
    from calve.pipeline.spark_needs import needs_s3, spark_conf

    ctx.meta[failures.JSON_LOG] = json_log
    chosen["conf"] = _with_bundle(chosen["bundle"], chosen["master"], chosen["conf"])
    if chosen["once"] and chosen["standby"]:
        raise click.UsageError("--once and --standby exclude each other")
    terminal = configure(json=json_log, debug=ctx.meta[failures.DEBUG])
    parsed = parse(path, PLUGINS)
    _announce(parsed)
    with ExitStack() as stack:
        stack.enter_context(sigterm_exits())
        settings = spark_conf(parsed.pipelines, chosen["conf"])
        if (early := start_early(chosen["master"], settings, needs_s3(parsed.pipelines))) is not None:
            stack.callback(early.abandon)
        import calve.pipeline.run as pipelines_run  # while the JVM starts
        from calve.dashboard.beside import Beside
        from calve.observe.metrics import Metrics
        from calve.observe.progress import ProgressLine
        from calve.observe.watch import Watch

        run_options = pipelines_run.RunOptions(**{key: chosen[key] for key in _RUN_OPTIONS})
        if chosen["dashboard"]:
            stack.enter_context(Beside(chosen["state"], chosen["dashboard_port"], pipelines=path))
        watch = stack.enter_context(Watch(_show_rejects(ctx)))
        stack.enter_context(Metrics(watch.reports, chosen["metrics_port"], chosen["metrics_host"], watch.health))
        stack.enter_context(ProgressLine(watch.reports, terminal, json=json_log, show_rejects=watch.show_rejects))
        run = partial(pipelines_run.run, parsed.pipelines, run_options, watch, early)
        code = run_until_asked(run, watch, abandon_all)
    ctx.exit(code)


def _announce(parsed: Parsed) -> None:
    """Log what starts, and what is unusual about it."""
    for warning in parsed.warnings:
        Log().warning(str(warning))
    Log().info(f"starting {', '.join(pipeline.title for pipeline in parsed.pipelines)}")
    if missing := library.missing():
        Log().warning(missing.message, hint=missing.hint)
    with suppress(EngineError):  # of the start, which says it
        if ignored := jdk.ignored_home():
            Log().warning(ignored, hint=jdk.HOME_HINT)


def _with_bundle(bundle: str | None, master: str | None, conf: dict[str, str]) -> dict[str, str]:
    """Return Spark's settings, with those that send a bundle."""
    if bundle is None:
        return conf
    if is_local(master_of(master, conf)):
        raise click.UsageError("--bundle is for a cluster: name its --master")
    if "://" not in bundle and not Path(bundle).is_file():
        raise click.UsageError(f"--bundle {bundle}: there is no such file; `calve bundle {bundle}` writes it")
    return bundle_settings(bundle) | conf


def _show_rejects(ctx: click.Context) -> str:
    """Return the command that shows the rejects of this run, with its options."""
    is_given = ctx.get_parameter_source("state") is not ParameterSource.DEFAULT
    return "calve dlq show" + (f" --state {shlex.quote(ctx.params['state'])}" if is_given else "")
