"""Sends events to Kafka topics, each exactly once for readers of committed records."""
