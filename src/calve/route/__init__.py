"""Routes events to tables, by conditions and `${…}` table names."""
