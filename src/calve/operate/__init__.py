"""What an operator does beside a run: dry run, probe, replay, rebuild of a lost state."""
