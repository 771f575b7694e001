"""Downloads ahead what the servers of the tests need: `python -m services.fetch` in the folder `tests`."""

from services import duckdb_iceberg, kafka, opensearch


def main() -> None:
    """Fetch everything, telling where it is."""
    print(f"Kafka {kafka.VERSION}: {kafka.fetch()}")
    print(f"OpenSearch {opensearch.VERSION}: {opensearch.fetch()}")
    print(f"DuckDB {duckdb_iceberg.VERSION} with its reader of Iceberg: {duckdb_iceberg.fetch() or 'not to be had'}")


if __name__ == "__main__":
    main()
