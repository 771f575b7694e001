"""Plan, run, drain: the life of a batch and of a pipeline, on the driver."""
