"""The rds source: Data Prepper's keys for what `postgres` and `mysql` read."""
