"""What a catalog's server, and the writers of its tables, may decide here: each test is an attack."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from calve.catalog.catalog import Catalog
from calve.catalog.lookup import look_up
from calve.catalog.trust import Trust, is_allowed, refuse_java_class
from calve.engine import session
from calve.errors import UnsupportedError
from services.rest_catalog import OTHER_TABLE, TABLE, RestCatalog

STORE = "s3://bucket/events"
CALLED: list[object] = []


def called(properties: object, *_: object) -> object:
    """What a hostile server names: any callable that Python can import."""
    CALLED.append(properties)
    raise AssertionError("a server ran code here")


CODE = f"{__name__}.called"
PYTHON = {"py-io-impl": CODE, "s3.retry-strategy-impl": CODE, "py-catalog-impl": CODE}
JAVA = dict.fromkeys(
    (
        "io-impl",
        "catalog-impl",
        "metrics-reporter-impl",
        "kms-impl",
        "encryption.kms-impl",
        "client.factory",
        "s3.client-factory-impl",
        "client.credentials-provider",
        "rest.auth.type",
        "rest.client.tls.configurer-impl",
        "hadoop.fs.s3.impl",
        "adls.token-credential-provider",
    ),
    "no.such.Class",
)
ELSEWHERE = {"uri": "http://127.0.0.1:1", "oauth2-server-uri": "http://127.0.0.1:1", "warehouse": "file:///"}
HOSTILE = PYTHON | JAVA | ELSEWHERE
LENT = {"s3.access-key-id": "lent", "s3.secret-access-key": "secret", "s3.session-token": "t", "client.region": "eu"}


def rest(address: str, **more: str) -> dict[str, str]:
    return {"type": "rest", "uri": address, "rest.client.max-retries": "1", **more}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_a_server_may_set_no_class_no_path_and_no_other_server(name: str) -> None:
    assert not is_allowed(name)


@pytest.mark.spark
@pytest.mark.parametrize("where", ["defaults", "overrides", "config", "credentials"])
def test_what_a_server_sets_runs_no_code_and_names_no_class(
    spark: SparkSession, where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = {"s3://bucket": HOSTILE} if where == "credentials" else HOSTILE
    with RestCatalog(STORE, **{where: said}).serve() as server:  # type: ignore[arg-type]
        table = Catalog(session.start(), rest(server.address)).load(TABLE)
    assert table is not None
    assert not table.io_properties.keys() & HOSTILE.keys()
    assert not CALLED


@pytest.mark.spark
def test_credentials_addresses_and_regions_are_taken_and_those_of_the_user_win(spark: SparkSession) -> None:
    lending = RestCatalog(STORE, overrides={"s3.endpoint": "http://server:1"}, config=LENT)
    with lending.serve() as server:
        table = Catalog(session.start(), rest(server.address)).load(TABLE)
        own = {"s3.access-key-id": "own", "s3.secret-access-key": "mine", "s3.endpoint": "http://own:1"}
        owned = Catalog(session.start(), rest(server.address, **own)).load(TABLE)
        other = Catalog(session.start(), rest(server.address)).load(OTHER_TABLE)
    assert table
    assert owned
    assert other
    assert not other.io_properties.keys() & {"s3.access-key-id", "s3.session-token"}  # they were lent for one table
    assert table.io_properties["s3.session-token"] == "t"
    assert table.io_properties["s3.endpoint"] == "http://server:1"
    assert {name: owned.io_properties[name] for name in own} == own
    assert "s3.session-token" not in owned.io_properties  # the server's token does not fit the user's key
    assert owned.io_properties["s3.region"] == "eu"


@pytest.mark.spark
@pytest.mark.parametrize(
    ("location", "properties", "warehouse", "is_taken"),
    [
        ("file:///tmp/calve-attack", {}, "", False),
        ("/tmp/calve-attack", {}, "", False),
        ("FILE:/tmp/calve-attack", {}, "", False),
        ("har:file:///tmp/calve-attack", {}, "", False),
        (STORE, {"write.data.path": "file:///tmp/calve-attack"}, "", False),
        (STORE, {"write.metadata.path": "/tmp/calve-attack"}, "", False),
        (STORE, {"write.object-storage.path": "file:/tmp/calve-attack"}, "", False),
        ("file:///tmp/calve-lake/../calve-attack", {}, "/tmp/calve-lake", False),
        ("file:///tmp/calve-lake/db", {}, "file:///tmp/calve-lake", True),
        (STORE, {"write.data.path": "s3://other/data"}, "", True),
    ],
)
def test_a_table_of_a_remote_catalog_is_on_this_machine_only_below_the_users_own_warehouse(
    spark: SparkSession, location: str, properties: dict[str, str], warehouse: str, is_taken: bool
) -> None:
    with RestCatalog(location, properties=properties).serve() as server:
        catalog = Catalog(session.start(), rest(server.address, **({"warehouse": warehouse} if warehouse else {})))
        for load in (catalog.load, catalog.load_java):
            if is_taken:
                assert load(TABLE)
                continue
            with pytest.raises(UnsupportedError, match=r"outside of the stores of the catalog iceberg"):
                load(TABLE)


@pytest.mark.spark
def test_a_commit_looks_at_the_locations_again(spark: SparkSession) -> None:
    answers = RestCatalog(STORE)
    with answers.serve() as server:
        attempt = Catalog(session.start(), rest(server.address)).begin(TABLE)
        answers.properties, answers.version = {"write.metadata.path": "file:///tmp/calve-attack"}, 1
        with pytest.raises(UnsupportedError, match=r"write\.metadata\.path file:///tmp/calve-attack"):
            attempt.inspect("main")


@pytest.mark.spark
@pytest.mark.parametrize(
    ("file", "is_taken"),
    [
        (f"{STORE}/metadata/1.metadata.json", True),
        ("s3://other/metadata/1.metadata.json", True),
        ("file:///home/me/precious", False),
        ("/home/me/precious", False),
        (f"{STORE}/metadata/../../x", False),
    ],
)
def test_no_commit_deletes_files_of_this_machine_that_a_table_calls_its_old_metadata(
    spark: SparkSession, file: str, is_taken: bool
) -> None:
    answers = RestCatalog(STORE, old_metadata=(file,))
    answers.properties = {"write.metadata.delete-after-commit.enabled": "true"}
    with answers.serve() as server:
        attempt = Catalog(session.start(), rest(server.address)).begin(TABLE)
        if is_taken:
            assert attempt.inspect("main").uuid
            return
        with pytest.raises(UnsupportedError, match=r"commits would delete .*, which its log of metadata lists"):
            attempt.inspect("main")


@pytest.mark.parametrize(
    ("properties", "is_taken"),
    [
        ({"uri": "jdbc:sqlite:/lake/catalog.db", "type": "jdbc", "warehouse": "/lake"}, True),
        ({"type": "hadoop", "warehouse": "/lake"}, True),
        ({"type": "hadoop", "warehouse": "lake"}, True),
        ({"type": "hive", "warehouse": "/lake"}, False),
        ({"type": "rest", "warehouse": "elsewhere"}, False),
        ({"type": "jdbc", "uri": "jdbc:postgresql://db/lake", "warehouse": "s3://lake"}, False),
    ],
)
def test_only_a_catalog_on_this_machine_chooses_any_folder(properties: dict[str, str], is_taken: bool) -> None:
    trust = Trust("iceberg", properties)
    if is_taken:
        trust.check("a.b", f"file://{Path('elsewhere').absolute()}", {})
    else:
        with pytest.raises(UnsupportedError):
            trust.check("a.b", f"file://{Path('elsewhere').absolute()}", {})


def test_a_link_in_the_warehouse_leads_to_no_other_folder(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "link").symlink_to("/etc")
    with pytest.raises(UnsupportedError):
        Trust("iceberg", {"type": "hive", "warehouse": f"{tmp_path}/lake"}).check("a.b", f"{tmp_path}/lake/link/x", {})


def test_no_java_class_of_a_table_chooses_where_spark_writes() -> None:
    with pytest.raises(UnsupportedError, match="loads no class that a table names"):
        refuse_java_class("a.b", {"write.location-provider.impl": "org.me.Mine"})
    refuse_java_class("a.b", {"write.location-provider.impl": ""})


@pytest.mark.parametrize("where", ["defaults", "overrides", "config", "credentials", "properties"])
def test_a_lookup_without_java_runs_no_code_of_the_server_or_of_a_table(where: str) -> None:
    said = {"s3://bucket": PYTHON} if where == "credentials" else PYTHON
    auth = {"auth": {"type": "custom", "impl": CODE, "custom": {"properties": 1}}}
    answers = RestCatalog(STORE, **{where: {**said, **(auth if where in ("defaults", "overrides") else {})}})
    with answers.serve() as server:
        found = look_up(rest(server.address), TABLE)
    assert found.location == f"{STORE}/metadata/00000.metadata.json"
    assert not found.storage.keys() & HOSTILE.keys()
    assert not CALLED


def test_a_lookup_without_java_stays_with_its_server_and_the_users_keys() -> None:
    answers = RestCatalog(STORE, overrides=ELSEWHERE, config=LENT, properties={"s3.endpoint": "http://evil"})
    with answers.serve() as server:
        assert look_up(rest(server.address), TABLE).storage["s3.access-key-id"] == "lent"
        found = look_up(rest(server.address, **{"s3.access-key-id": "own", "s3.secret-access-key": "mine"}), TABLE)
    assert found.storage["s3.access-key-id"] == "own"
    assert "s3.endpoint" not in found.storage
    with RestCatalog("file:///tmp/calve-attack").serve() as server, pytest.raises(UnsupportedError):
        look_up(rest(server.address), TABLE)
