"""Change streams: envelopes of Debezium, Maxwell and AWS DMS become rows and what is to be done with them."""
