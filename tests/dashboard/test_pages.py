"""Every page of every state, parsed: what it says, that it is sound and labelled, and that it runs nothing foreign."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote

import pytest

from calve.catalog.open_tables import OpenTables
from calve.dashboard.access import AccessRules
from calve.dashboard.model import MANY_FILES, MANY_SNAPSHOTS
from calve.dashboard.pipeline_pages import PipelinePages
from calve.dashboard.table_view import TableReader
from calve.errors import SourceUnavailableError
from calve.observe.status import BatchCounts, PipelineStatus
from calve.table.limits import DEFAULTS
from dashboard.conftest import PASSWORD, Page, Visit
from dashboard.states import ALL, HOSTILE, letters, save

PAGES = (
    "/",
    "/pipelines/orders",
    "/pipelines/orders/rejects",
    "/pipelines/orders/table?name=shop.orders",
    "/pipelines/orders/definition",
    "/pipelines/orders/log",
    "/pipelines/none",
    "/login",
)


def sound(page: Page) -> None:
    """Check what axe checks, as far as the text alone shows it."""
    assert page.unbalanced == []
    assert page.all("html") == [{"lang": "en"}]
    assert len(page.all("main")) == len(page.all("h1")) == len(page.all("title")) == 1
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    named = [
        attributes[key] for _, attributes in page.elements for key in ("aria-labelledby", "for") if key in attributes
    ]
    assert set(named) <= set(ids)
    assert all("scope" in attributes for attributes in page.all("th"))
    assert all(attributes.get("aria-label") for attributes in page.all("svg"))
    levels = [int(tag[1]) for tag, _ in page.elements if tag in ("h1", "h2", "h3")]
    assert all(after - before <= 1 for before, after in pairwise(levels))
    fields = [one for one in page.all("input") if one.get("type") != "hidden"]
    assert {one["id"] for one in fields} <= {one["for"] for one in page.all("label")}


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("state", list(ALL))
def test_every_page_of_every_state_is_validated_and_escapes_what_it_shows(visit: Visit, state: str, path: str) -> None:
    page = visit(state).get(path)
    sound(page)
    assert [one["src"] for one in page.all("script")] == ["/static/page.js"]
    assert not any(name.startswith("on") or name == "style" for _, found in page.elements for name in found)
    assert "\x1b" not in page.text
    assert "\u202e" not in page.text


def test_hostile_names_and_events_are_shown_as_text(visit: Visit) -> None:
    visitor = visit("hostile")
    for path in ("/pipelines/orders", "/pipelines/orders/rejects"):
        assert "</td><script>alert(1)</script>\"'&{{7*7}}\\x1b[2J\\u202e" in visitor.get(path).text
    (link,) = [one["href"] for one in visitor.get("/pipelines/orders/rejects").all("a") if "table=" in one["href"]]
    page = visitor.get(f"/pipelines/orders/rejects{link}")
    assert "Of the newest 3 dead letters" in page.text


def test_a_pipeline_that_keeps_up_shows_it_with_its_figures(visit: Visit) -> None:
    visitor = visit("healthy")
    overview = visitor.get("/")
    for said in ("Nothing is wrong.", "orders", "clicks", "keeps up", "600 rows", "482,110,040 rows", "within 2 s"):
        assert said in overview.text
    page = visitor.get("/pipelines/orders")
    for said in ("420 files, 61.0 GiB", "148.7 MiB", "12,000 in 8 files", "212", "3 h ago", "7000000001"):
        assert said in page.text
    labels = [one["aria-label"] for one in page.all("svg")]
    assert "Lag: 600 rows" in page.text
    assert re.fullmatch(r"Lag, over the last 60 min: now 600 rows, at most 1,199", labels[1])


def test_rejects_and_refusals_of_a_run_are_wrong_on_the_page(visit: Visit, tmp_path: Path) -> None:
    visitor, status = visit("healthy"), PipelineStatus("orders")
    status.set_state("running")
    status.batch_written(BatchCounts(2, 100, rejects={"shop.orders": {"NO_KEY": 1}}), 0.4)
    status.lag(0, 0, "its disk is nearly full", {"429": 6})
    save(tmp_path / "calve-state", status)
    letters(tmp_path / "calve-state", "orders", "id", "id is missing", "{}", code="NO_KEY")
    text = visitor.get("/").text
    assert "Nothing is wrong." not in text
    assert "refuses events" in text
    assert "Error in orders: It refuses events: its disk is nearly full." in text
    assert "Note in orders: 3 dead letters wait: NO_KEY 3." in text
    assert "Note in orders: Requests refused in this run, by status: 429 6." in text


@pytest.mark.parametrize(
    ("address", "links"),
    [("http://127.0.0.1:4040", 1), ("", 0), ("javascript:alert(1)", 0), ('http://x/"><script>', 1)],
)
def test_a_pipeline_links_to_sparks_pages_where_they_are_on(
    visit: Visit, tmp_path: Path, address: str, links: int
) -> None:
    visitor, status = visit("healthy"), PipelineStatus("orders")
    status.set_state("running")
    status.shows_spark_at(address)
    save(tmp_path / "calve-state", status)
    page = visitor.get("/pipelines/orders")
    sound(page)
    assert [one["href"] for one in page.all("a") if one["href"] == address] == [address] * links
    assert len(page.all("script")) == 1


def test_a_lag_that_grows_and_small_files_are_shown_with_what_helps(visit: Visit) -> None:
    visitor = visit("lagging")
    page = visitor.get("/pipelines/orders")
    for said in (
        "falls behind",
        "4,812,000 rows wait in the source, and the lag grows",
        "more cores",
        "Many small files: compact, many snapshots: expire",
        "calve maintain shop.orders",
    ):
        assert said in page.text
    assert "falls behind" in visitor.get("/").text


def test_the_key_index_of_a_table_is_shown(visit: Visit) -> None:
    assert "2,000,000 rows, 46.7 MiB, 5,000 audited (" in visit("healthy").get("/pipelines/orders").text


def test_what_is_wrong_is_shown_with_the_hint_and_the_worst_first(visit: Visit) -> None:
    text = visit("failing").get("/").text
    assert "Kafka at kafka:9092 does not answer" in text
    assert "Start it, or correct bootstrap_servers" in text
    assert "calve state forget shop.refunds" in text
    assert text.index("Error in orders") < text.index("Note in clicks")
    assert "does not read or write" in text


def test_a_state_without_pipelines_says_how_to_start_one(visit: Visit) -> None:
    assert "calve run pipeline.yaml" in visit("empty").get("/").text


def test_rejects_can_be_chosen_by_code_and_table(visit: Visit) -> None:
    visitor = visit("rejecting")
    chosen = visitor.get("/pipelines/orders/rejects?code=NOT_COERCIBLE&table=shop.orders")
    assert "'12,50' is not a valid double" in chosen.text
    assert "in the field amount: 3" in chosen.text
    assert "No examples to show" in visitor.get("/pipelines/orders/rejects?code=MALFORMED").text


def test_equal_reasons_are_one_group_with_their_number(visit: Visit) -> None:
    page = visit("rejecting").get("/pipelines/orders/rejects?code=NOT_COERCIBLE")
    assert len(page.all("article")) == 1
    assert "3 times" in page.text


def test_a_problem_of_many_pipelines_is_shown_once(visit: Visit) -> None:
    visitor = visit("empty")
    for number in range(9):
        status = PipelineStatus(f"p{number}")
        status.trouble(SourceUnavailableError("Kafka at kafka:9092 does not answer", step="read"))
        save(Path(visitor.app.state), status)
    page = visitor.get("/")
    sound(page)
    assert page.text.count("Kafka at kafka:9092 does not answer") == 1
    assert "Error in p0, p1, p2, p3, p4 and 4 more: Kafka at" in page.text


def test_pipelines_are_sorted_by_need(visit: Visit) -> None:
    visitor = visit("failing")
    status = PipelineStatus("a-healthy-one")
    status.set_state("running")
    save(Path(visitor.app.state), status)
    names = [one["href"] for one in visitor.get("/").all("a") if re.fullmatch("/pipelines/[^/]+", one["href"])]
    assert [name.rpartition("/")[2] for name in names][-3:] == ["orders", "clicks", "a-healthy-one"]


def test_events_of_any_bytes_and_length_are_shown_harmlessly_and_cut(visit: Visit) -> None:
    visitor = visit("rejecting")
    folder = Path(visitor.app.state, "orders", "dlq")
    event = {"code": "MALFORMED", "event_encoding": "base64", "event": "/wD/PGI+" + "QUFB" * 4000}
    (folder / "2.ndjson").write_text(json.dumps(event) + "\nno entry\n")
    text = visitor.get("/pipelines/orders/rejects?code=MALFORMED").text
    assert "\\xff\\x00\\xff<b>AAA" in text
    assert "A…" in text
    assert "12,006 bytes" in text
    assert len(text) < 5_000


def test_names_that_are_no_pipeline_lead_nowhere(visit: Visit) -> None:
    visitor = visit("healthy")
    for name in ("..", "_dashboard", "%2e%2e", "orders/dlq", "or\0ders", ""):
        assert visitor.get(f"/pipelines/{name}").answer.status == 404


def test_a_status_that_cannot_be_read_is_a_problem_of_its_pipeline_alone(visit: Visit) -> None:
    visitor = visit("healthy")
    Path(visitor.app.state, "orders", "status.json").write_text("{")
    page = visitor.get("/")
    assert "Error in orders: the status file" in page.text
    assert "keeps up" in page.text
    sound(page)
    page = visitor.get("/pipelines/orders")
    assert page.answer.status == 409
    assert "cannot be read" in page.text
    sound(page)


def test_thousands_of_tables_make_a_page_of_bounded_length(visit: Visit) -> None:
    visitor = visit("empty")
    status = PipelineStatus("orders")
    status.batch_written(BatchCounts(1, 1, rejects={f"a.t{n}": {"NO_KEY": 1} for n in range(1_000)}), 0.1)
    save(Path(visitor.app.state), status)
    page = visitor.get("/pipelines/orders")
    assert "And 900 more tables" in page.text
    assert len(page.answer.body) < 200_000


def test_the_files_of_the_page_need_no_other_server(visit: Visit) -> None:
    visitor = visit("healthy")
    assert all(one["href"].startswith("/static/") for one in visitor.get("/").all("link"))
    for name in ("style.css", "page.js", "icon.svg"):
        answer = visitor.get(f"/static/{name}").answer
        assert answer.status == 200
        assert b"http" not in answer.body.replace(b"http://www.w3.org/2000/svg", b"")
    policy = visitor.get("/").answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_no_secret_is_on_a_page(visit: Visit) -> None:
    visitor = visit("healthy", access=AccessRules(PASSWORD))
    visitor.log_in()
    for path in PAGES:
        page = visitor.get(path)
        assert PASSWORD not in page.answer.body.decode()
        assert visitor.cookies.partition("=")[2] not in page.answer.body.decode()


def test_advice_begins_above_what_maintenance_by_need_leaves_and_where_the_guide_says() -> None:
    assert DEFAULTS.small_files < MANY_FILES
    assert DEFAULTS.max_snapshots < MANY_SNAPSHOTS
    guide = Path(__file__).parents[2].joinpath("docs/dashboard.md").read_text()
    assert f"for {MANY_FILES} or more data files" in guide
    assert f"more than {MANY_SNAPSHOTS:,} snapshots" in guide


def test_the_drawing_has_the_parts_of_the_pipeline_and_counts_on_its_arrows(visit: Visit) -> None:
    page = visit("healthy").get("/pipelines/orders")
    text = re.sub(r"\s+", " ", page.text)
    assert "source kafka 482,110,040 events processorsparse_jsongrokdate 482,110,040 events" in text
    assert "route known: 482,110,040 rows iceberg shop.${/kind} shop.orders 482,110,040 rows, 12 rejected" in text
    assert "route errors or _default, then grok: 0 rows opensearch logs-grok" in text
    assert "15 events rejected, to the dead letters" in text
    assert "/pipelines/orders/table?name=shop.orders" in [one["href"] for one in page.all("a")]
    assert "Rows committed meanwhile, over the last 60 min: now 2.4M, at most 2.4M" in [
        one["aria-label"] for one in page.all("svg")
    ]


def test_the_page_of_a_table_has_its_columns_partitions_and_newest_rows(visit: Visit, tmp_path: Path) -> None:
    page = visit("healthy").get("/pipelines/orders/table?name=shop.orders")
    text = re.sub(r"\s+", " ", page.text)
    for said in (f"{tmp_path}/lakehouse/shop/orders", "Partitionsnone", "Sort ordernone", "Rows30", "1 file"):
        assert said in text
    assert "idlong" in text
    assert "attimestamptz" in text
    assert "1Bern2026-11-22T09:00:00Z 2NULL" in text
    assert "Rows that broke it id_unique1,234" in text
    assert len(page.all("tr")) == 2 + 1 + 3 + 1 + 20
    assert [one for one in page.all("section") if "data-live" in one] == []  # it would read the table every 5 s


def test_a_table_that_is_not_of_the_pipeline_or_cannot_be_read_says_it(visit: Visit, tmp_path: Path) -> None:
    visitor = visit("healthy")
    for name in ("shop.page_views", "../orders", "", "shop.orders%00"):
        assert visitor.get(f"/pipelines/orders/table?name={name}").answer.status == 404
    assert "start the dashboard with --pipelines" in visitor.get("/pipelines/clicks/table?name=shop.page_views").text
    (tmp_path / "lakehouse" / "catalog.db").unlink()
    assert "There is no catalog" in visitor.get("/pipelines/orders/table?name=shop.orders").text


def test_a_table_of_a_catalog_that_does_not_answer_costs_a_page_a_bounded_time(
    visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor, ended = visit("healthy"), threading.Event()
    monkeypatch.setattr(OpenTables, "open", lambda self, name: ended.wait(60))
    pages = PipelinePages(visitor.app.state, visitor.app.history, reader=TableReader(answer_seconds=0.05))
    visitor.app = replace(visitor.app, pages=pages)
    path = "/pipelines/orders/table?name=shop.orders"
    assert ["has not answered" in visitor.get(path).text for _ in range(3)] == [True, True, False]
    assert "Other pages are reading tables" in visitor.get(path).text
    ended.set()


def test_rows_of_a_table_are_shown_only_where_that_is_wanted(visit: Visit) -> None:
    visitor = visit("healthy")
    pages = PipelinePages(visitor.app.state, visitor.app.history, reader=TableReader(shows_rows=False))
    visitor.app = replace(visitor.app, pages=pages)
    text = visitor.get("/pipelines/orders/table?name=shop.orders").text
    assert "--no-rows" in text
    assert "timestamptz" in text
    assert "Biel" not in text


def test_the_definition_and_the_log_of_a_run_are_shown(visit: Visit) -> None:
    visitor = visit("healthy")
    definition, log = (visitor.get(f"/pipelines/orders/{page}").answer.body.decode() for page in ("definition", "log"))
    assert "      password: …\n" in definition
    assert log.count("created the table shop.orders grok\n") == 4
    for page in ("definition", "log"):
        assert "no run of this version" in visitor.get(f"/pipelines/clicks/{page}").text


def test_hostile_definitions_logs_tables_and_rows_are_shown_as_text(visit: Visit) -> None:
    visitor = visit("hostile")
    for page in ("definition", "log", "table?name=shop.orders", f"table?name={quote(HOSTILE)}"):
        text = visitor.get(f"/pipelines/orders/{page}").answer.body.decode()
        assert "<script>alert" not in text
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
        assert "\u202e" not in text
        assert "\x1b" not in text
    assert len(visitor.get("/pipelines/orders/table?name=shop.orders").text) < 10_000
