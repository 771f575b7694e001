"""Downloads ahead what the servers of the tests need: `python -m services.fetch` in the folder `tests`."""

from services import kafka, opensearch


def main() -> None:
    """Fetch everything, telling where it is."""
    print(f"Kafka {kafka.VERSION}: {kafka.fetch()}")
    print(f"OpenSearch {opensearch.VERSION}: {opensearch.fetch()}")


if __name__ == "__main__":
    main()
