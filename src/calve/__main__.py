"""`python -m calve`."""

from calve.cli.main import main

main()
