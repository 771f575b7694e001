"""The command `calve`: one module per command."""
