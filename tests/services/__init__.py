"""Real servers on loopback for tests, demo and benches: a Kafka broker, an object store with a REST catalog."""
