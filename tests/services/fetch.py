"""Downloads ahead what the servers of the tests need: `python -m services.fetch` in the folder `tests`."""

from services import (
    azurite,
    chromium,
    duckdb_iceberg,
    elasticmq,
    gcs,
    kafka,
    mysql,
    opensearch,
    opentelemetry,
    postgres,
)


def main() -> None:
    """Fetch everything, telling where it is."""
    print(f"Kafka {kafka.VERSION}: {kafka.fetch()}")
    print(f"OpenSearch {opensearch.VERSION}: {opensearch.fetch()}")
    print(f"PostgreSQL {postgres.VERSION}: {postgres.fetch()}")
    for kind in (mysql.MYSQL, mysql.MYSQL_5, mysql.MARIADB):
        print(f"{kind.name} {kind.version}: {kind.fetch()}")
    print(f"ElasticMQ {elasticmq.VERSION}: {elasticmq.fetch()}")
    print(f"Azurite {azurite.VERSION}: {azurite.fetch() or 'not to be had'}")
    print(f"fake-gcs-server: {gcs.fetch() or 'not to be had'}")
    if chromium.find():
        print(f"axe-core: {chromium.axe() or 'not to be had'}")
    if opentelemetry.is_wanted():
        print(f"OpenTelemetry's SDKs and Collector: {opentelemetry.fetch()}")
    print(f"DuckDB {duckdb_iceberg.VERSION} with its reader of Iceberg: {duckdb_iceberg.fetch() or 'not to be had'}")


if __name__ == "__main__":
    main()
