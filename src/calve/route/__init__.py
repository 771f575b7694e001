"""Which table an event goes to: conditions and `${…}` table names."""
