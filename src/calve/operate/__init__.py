"""Tools of an operator: dry run, probe, replay, rebuild of a lost state."""
