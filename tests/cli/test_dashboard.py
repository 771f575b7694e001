"""`calve dashboard`, `calve pause` and `calve resume`: what they refuse, and that they end as they should."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.error
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pytest

from calve.dashboard.beside import Beside
from calve.observe.pause import is_paused
from kit.running import PATIENCE_SECONDS

from .conftest import Shell

PASSWORD = "correct horse"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--host", "0.0.0.0"), "needs a password"),
        (("--host", "192.0.2.1"), "needs a password"),
        (("--actions", "orders.yaml"), "--actions needs a password"),
        (("--password-file", "short"), "fewer than 8 characters"),
        (("--password-file", "missing"), "does not exist"),
        (("--actions", "missing.yaml"), "does not exist"),
    ],
)
def test_what_would_be_unsafe_is_refused_with_the_fix(shell: Shell, arguments: tuple[str, ...], said: str) -> None:
    shell.write("orders.yaml", "")
    shell.write("short", "1234567\n")
    result = shell("dashboard", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_port_in_use_is_named_with_the_option_that_changes_it(shell: Shell) -> None:
    with subprocess.Popen(_command(shell.folder, "--port", "0"), stderr=subprocess.PIPE, text=True) as other:
        port = str(urlsplit(_url(other)).port)
        result = shell("dashboard", "--port", port)
        other.terminate()
    assert result.exit_code == 2
    assert f"cannot listen on 127.0.0.1:{port}" in result.stderr
    assert "--port 9602" in result.stderr


def test_it_serves_until_it_is_asked_to_end(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(PASSWORD + "\n")
    (tmp_path / "orders.yaml").write_text(
        "orders: {source: {http: {}}, sink: [{iceberg: {table_identifier: shop.orders}}]}\n"
    )
    options = ("--port", "0", "--password-file", str(file), "--actions", str(tmp_path / "orders.yaml"))
    with subprocess.Popen(_command(tmp_path, *options), stderr=subprocess.PIPE, text=True) as process:
        url = _url(process)
        with urllib.request.urlopen(url + "healthz") as answer:
            assert answer.status == 200
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(url)
        assert refused.value.code == 401
        refused.value.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0
    assert not (tmp_path / "calve-state").exists()


def test_without_a_password_the_first_address_has_a_token_that_other_users_of_the_machine_lack(tmp_path: Path) -> None:
    with subprocess.Popen(_command(tmp_path, "--port", "0"), stderr=subprocess.PIPE, text=True) as process:
        url = _url(process)
        for path in ("/", "/pipelines/orders/rejects", "/open/", "/open/x", "/login"):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(urljoin(url, path))
            assert refused.value.code == 401
            refused.value.close()
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        for address in (url, urljoin(url, "/"), url):
            with browser.open(address) as answer:
                assert answer.status == 200
                assert answer.url == urljoin(url, "/"), "the token does not stay in the address"
        process.terminate()


def test_the_dashboard_of_a_run_ends_with_it_however_it_ends(tmp_path: Path) -> None:
    code = "import sys; sys.stdin.buffer.read(); open(sys.argv[4] + '/ended', 'w').close()"
    with Beside(str(tmp_path), 9601, (sys.executable, "-c", code)):
        assert not (tmp_path / "ended").exists()
    assert (tmp_path / "ended").exists()


def test_a_dashboard_that_cannot_start_does_not_stop_the_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING", "calve"), Beside(str(tmp_path), 9601, ("/no/such/program",)):
        assert "no dashboard" in caplog.text
    with Beside(str(tmp_path), 9601, (sys.executable, "-c", "import sys; sys.exit(1)")):
        pass


def test_pause_and_resume_name_the_pipelines_that_there_are(shell: Shell) -> None:
    (shell.folder / "calve-state" / "orders").mkdir(parents=True)
    assert "calve resume orders" in shell("pause", "orders").stdout
    assert is_paused("calve-state", "orders")
    assert "orders: reads again" in shell("resume", "orders").stdout
    assert not is_paused("calve-state", "orders")
    result = shell("pause", "others")
    assert result.exit_code == 1
    assert "has no pipeline others. It has: orders" in result.stderr


def _command(folder: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "calve", "dashboard", "--state", str(folder / "calve-state"), *options]


def _url(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    address = next((line for line in process.stderr if "dashboard: " in line), "")
    return address.partition("dashboard: ")[2].strip()
