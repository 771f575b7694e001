"""Sources: their protocols, and one folder per source."""
