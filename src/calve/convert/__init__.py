"""Events into typed rows: the compiled core, and the exact converter that alone gives reasons."""
