"""The slot and the snapshot: where reading begins, and how far the server may forget."""
