"""Sources: what a source must yield, and one folder per source."""
