"""Where a pipeline's memory is kept: a folder of a local disk or of an object store, with one protocol for both."""
