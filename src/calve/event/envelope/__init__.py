"""Change streams: envelopes of Debezium, Maxwell and AWS DMS become rows and their operations."""
