"""What asks and serves other machines: names, waits, bounds, reasons."""
