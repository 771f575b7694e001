"""The files of `deploy/` fit Calve as it is: commands, ports, paths, pipelines; and each is sound for its own tool."""

from __future__ import annotations

import ast
import inspect
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import calve as api
from calve.pipeline.plugins import PLUGINS
from calve.settings import parse_text
from kit.command_lines import check_arguments

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICE, STATEFUL_SET = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
POD: dict[str, Any] = STATEFUL_SET["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
UNIT = (DEPLOY / "calve.service").read_text()


def instructions(name: str) -> list[str]:
    joined = DOCKERFILE.replace("\\\n", " ")
    return [line.partition(" ")[2].strip() for line in joined.splitlines() if line.startswith(f"{name} ")]


def commands() -> dict[str, list[str]]:
    (exec_start,) = re.findall(r"^ExecStart=/opt/calve/bin/calve (.*)$", UNIT, re.MULTILINE)
    return {
        "Dockerfile": list(ast.literal_eval(instructions("CMD")[-1])),
        "the Dockerfile's jars": ["doctor", "--fetch", "--s3"],
        "dashboard in compose.yaml": COMPOSE["services"]["dashboard"]["command"],
        "kubernetes.yaml": CONTAINER["args"],
        "calve.service": shlex.split(exec_start),
    }


@pytest.mark.parametrize("name", list(commands()))
def test_each_command_is_one_that_calve_has(name: str) -> None:
    check_arguments(commands()[name])


def test_the_pipeline_of_compose_is_one_that_calve_takes() -> None:
    keys = COMPOSE["x-keys"]
    (found,) = parse_text((DEPLOY / "orders.yaml").read_text(), PLUGINS, environment=keys).pipelines
    assert found.source.value.servers == "kafka:9092"
    (sink,) = found.sinks
    assert sink.value.catalog["credential"] == f"{keys['AWS_ACCESS_KEY_ID']}:{keys['AWS_SECRET_ACCESS_KEY']}"


def test_the_image_runs_as_a_user_without_rights_and_from_pinned_parts() -> None:
    assert instructions("USER") == ["10001:10001"]
    assert all(re.search(r":\d+\.\d+", one) for one in instructions("FROM"))
    assert instructions("ADD") == []
    run = " ".join(instructions("RUN"))
    assert "--require-hashes --requirement /dist/requirements-run.lock" in run
    assert "calve doctor --fetch --s3" in run
    sources = [one.split()[-2] for one in instructions("COPY")]
    assert all(one.startswith("/") or (ROOT / one).exists() for one in sources)


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-run.lock", "requirements-java.lock"])
def test_every_package_is_one_version_whose_files_have_known_hashes(name: str) -> None:
    lines = [line for line in (ROOT / name).read_text().splitlines() if not line.startswith("#")]
    packages = [line for line in lines if not line.startswith(" ")]
    assert packages
    assert all(re.match(r"[a-z0-9._-]+==[^ ]+ ", line) and line.endswith("\\") for line in packages)
    assert all(re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line) for line in lines if line.startswith(" "))
    everything = (ROOT / "requirements.lock").read_text()
    assert name == "requirements-java.lock" or all(line in everything for line in packages), "one version everywhere"


def test_the_build_gets_what_it_needs_and_nothing_of_the_developers() -> None:
    kept = [line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")]
    assert all((ROOT / name).exists() for name in kept)
    assert {"core", "src", "pyproject.toml", "setup.py", "README.md", "LICENSE"} <= set(kept)
    assert not {"tests", "bench", ".git", ".venv"} & set(kept)


def test_the_services_of_compose_fit_together() -> None:
    services = COMPOSE["services"]
    assert all(re.search(r":\d+(\.\d+)+$", one["image"]) for one in services.values() if "image" in one)
    for one in services.values():
        for volume in one.get("volumes", ()):
            source = volume.partition(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in COMPOSE["volumes"]
        assert set(one.get("depends_on", ())) <= set(services)
        if "build" in one:
            assert (DEPLOY / one["build"]["context"] / one["build"]["dockerfile"]).exists()
        assert all(port.startswith("127.0.0.1:") for port in one.get("ports", ()))
    assert services["calve"]["environment"] == services["store"]["environment"]


def test_the_pod_is_one_driver_without_rights_with_probes_and_a_state_that_lasts() -> None:
    assert STATEFUL_SET["spec"]["replicas"] == 1
    assert STATEFUL_SET["spec"]["selector"]["matchLabels"] == SERVICE["spec"]["selector"]
    assert STATEFUL_SET["spec"]["template"]["metadata"]["labels"] == SERVICE["spec"]["selector"]
    assert POD["securityContext"]["runAsNonRoot"]
    assert f"{POD['securityContext']['runAsUser']}:{POD['securityContext']['runAsGroup']}" == instructions("USER")[0]
    assert CONTAINER["securityContext"]["readOnlyRootFilesystem"]
    paths = {name: CONTAINER[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness", "readiness")}
    assert paths == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}
    assert [one["containerPort"] for one in CONTAINER["ports"]] == [9600]
    claims = [one["metadata"]["name"] for one in STATEFUL_SET["spec"]["volumeClaimTemplates"]]
    volumes = [one["name"] for one in POD["volumes"]] + claims
    mounts = {one["name"]: one["mountPath"] for one in CONTAINER["volumeMounts"]}
    assert sorted(mounts) == sorted(volumes)
    state = CONTAINER["args"][CONTAINER["args"].index("--state") + 1]
    assert claims == ["state"]
    assert state.startswith(mounts["state"] + "/")


def test_kubernetes_accepts_the_manifests() -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    for one in (SERVICE, STATEFUL_SET):
        validate.validate(one, "1.32", strict=True)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd on this machine")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    program = tmp_path / "calve"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / "calve.service"
    unit.write_text(UNIT.replace("/opt/calve/bin/calve", str(program)))
    checked = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert [line for line in checked.stderr.splitlines() if "calve.service" in line] == []


def test_the_task_of_airflow_calls_calve_as_it_is() -> None:
    tree = ast.parse((DEPLOY / "airflow_dag.py").read_text())
    calls = [one for one in ast.walk(tree) if isinstance(one, ast.Call) and ast.unparse(one.func) == "calve.run"]
    (call,) = calls
    values = {one.arg or "": ast.literal_eval(one.value) for one in call.keywords}
    inspect.signature(api.run).bind(*map(ast.literal_eval, call.args), **values)
    assert values["once"] is True


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_and_options(shell: str) -> None:
    def ask(**variables: str) -> str:
        command = [sys.executable, "-m", "calve"]
        return subprocess.run(
            command, env={**os.environ, **variables}, capture_output=True, text=True, check=False
        ).stdout

    assert "_calve_completion" in ask(_CALVE_COMPLETE=f"{shell}_source")
    words = {"COMP_WORDS": "calve dlq re", "COMP_CWORD": "2" if shell != "fish" else "re"}
    assert "replay" in ask(_CALVE_COMPLETE=f"{shell}_complete", **words)
