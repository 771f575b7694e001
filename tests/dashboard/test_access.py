from __future__ import annotations

import socket

import pytest

from calve.dashboard.access import AccessRules, is_loopback
from dashboard.conftest import PASSWORD, Visit

TRUE = ["true"]


def test_without_a_password_everybody_reads_and_nobody_acts(visit: Visit) -> None:
    visitor = visit("healthy")
    page = visitor.get("/pipelines/orders")
    assert page.answer.status == 200
    assert page.all("form") == []
    assert visitor.post("/pipelines/orders/pause").status == 403
    assert visitor.log_in("").status == 403


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/pipelines/orders",
        "/pipelines/orders/rejects",
        "/pipelines/orders/table?name=shop.orders",
        "/pipelines/orders/definition",
        "/pipelines/orders/log",
        "/actions",
        "/nothing",
    ],
)
def test_with_a_password_every_page_needs_it(visit: Visit, path: str) -> None:
    visitor = visit("healthy", TRUE)
    page = visitor.get(path)
    assert page.answer.status == 401
    assert "orders" not in page.text
    assert "action" in page.all("form")[0]
    assert visitor.log_in().status == 303
    assert visitor.get(path).answer.status == (404 if path == "/nothing" else 200)


def test_a_session_ends_at_log_out_and_after_twelve_hours(visit: Visit) -> None:
    clock = [0.0]
    visitor = visit("healthy", TRUE, AccessRules(PASSWORD, clock=lambda: clock[0]))
    visitor.log_in()
    visitor.get("/")
    before = visitor.cookies
    assert visitor.post("/logout").status == 303
    visitor.cookies = before
    assert visitor.get("/").answer.status == 401
    visitor.log_in()
    assert visitor.get("/").answer.status == 200
    clock[0] += 12 * 3600 + 1
    assert visitor.get("/").answer.status == 401


def test_after_five_wrong_passwords_all_must_wait_a_minute(visit: Visit) -> None:
    clock = [0.0]
    visitor = visit("healthy", TRUE, AccessRules(PASSWORD, clock=lambda: clock[0]))
    assert [visitor.log_in("wrong").status for _ in range(5)] == [403] * 5
    assert visitor.log_in().status == 429
    clock[0] += 61
    assert visitor.log_in().status == 303


def test_the_cookie_is_out_of_reach_for_scripts_and_other_sites(visit: Visit) -> None:
    cookie = visit("healthy", TRUE).log_in().headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:9601", "localhost.evil.example", "10.0.0.7:9601", "", "[::"]
)
def test_a_foreign_host_name_gets_no_page(visit: Visit, host: str) -> None:
    page = visit("healthy").get("/", HTTP_HOST=host)
    assert page.answer.status == 403
    assert "keeps up" not in page.text


@pytest.mark.parametrize("host", ["localhost:9601", "127.0.0.1", "[::1]:9601", "LOCALHOST", "calve.example:443"])
def test_names_of_this_machine_get_the_pages(visit: Visit, host: str) -> None:
    assert visit("healthy", access=AccessRules(names=["calve.example"])).get("/", HTTP_HOST=host).answer.status == 200


def test_a_server_for_others_is_known_by_its_addresses_and_its_name() -> None:
    access = AccessRules(PASSWORD, "0.0.0.0")
    assert access.knows_host("192.0.2.7:9601")
    assert access.knows_host(f"{socket.gethostname()}:9601")
    assert not access.knows_host("evil.example")


@pytest.mark.parametrize(
    "headers",
    [
        {"HTTP_ORIGIN": "http://evil.example"},
        {"HTTP_ORIGIN": "null"},
        {"HTTP_ORIGIN": "http://127.0.0.1:80"},
        {"HTTP_SEC_FETCH_SITE": "cross-site"},
        {"HTTP_SEC_FETCH_SITE": "same-site"},
    ],
)
def test_a_form_of_another_site_does_nothing(visit: Visit, headers: dict[str, str]) -> None:
    visitor = visit("healthy", TRUE)
    visitor.log_in()
    visitor.get("/pipelines/orders")
    assert visitor.post("/pipelines/orders/pause", headers).status == 403
    assert visitor.post("/login", headers, password=PASSWORD).status == 403
    assert visitor.app.actions is not None
    assert visitor.app.actions.jobs == []


def test_a_form_without_the_proof_of_its_session_does_nothing(visit: Visit) -> None:
    visitor = visit("healthy", TRUE)
    visitor.log_in()
    visitor.get("/")
    other = visit("healthy", TRUE, visitor.app.access)
    other.log_in()
    for proof in ("", "wrong", other.get("/") and other.proof):
        visitor.proof = proof
        assert visitor.post("/pipelines/orders/pause").status == 403
    visitor.proof = "ü"
    assert visitor.post("/pipelines/orders/pause").status == 403


def test_a_form_that_is_too_long_or_no_text_is_refused(visit: Visit) -> None:
    visitor = visit("healthy", TRUE)
    assert visitor.post("/login", password="x" * 70_000).status == 400
    assert visitor.post("/login", {"CONTENT_LENGTH": "many"}).status == 400
    assert visitor.post("/login", {"CONTENT_LENGTH": "-1"}).status == 400


def test_only_addresses_of_this_machine_are_loopback() -> None:
    assert [
        host for host in ("localhost", "127.0.0.1", "127.8.0.1", "::1", "0.0.0.0", "::", "calve") if is_loopback(host)
    ] == [
        "localhost",
        "127.0.0.1",
        "127.8.0.1",
        "::1",
    ]


@pytest.mark.parametrize("page", ["table?name=shop.orders", "definition", "log"])
def test_pages_of_a_pipeline_obey_the_rules_of_the_others(visit: Visit, page: str) -> None:
    visitor = visit("healthy", TRUE)
    path = f"/pipelines/orders/{page}"
    visitor.log_in()
    answer = visitor.get(path).answer
    policy = answer.headers["Content-Security-Policy"]
    assert answer.status == 200
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert visitor.get(path, HTTP_HOST="evil.example").answer.status == 403
    assert visitor.post(path).status == 404
    visitor.cookies = "calve_session=guessed"
    stolen = visitor.get(path)
    assert stolen.answer.status == 401
    assert "orders" not in stolen.text
    for name in ("..", "%2e%2e", "orders/..", "_dashboard"):
        visitor.log_in()
        assert visitor.get(f"/pipelines/{name}/{page}").answer.status == 404
