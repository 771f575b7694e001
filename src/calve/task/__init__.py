"""The path of events in a task: read, route, convert, write. Runs on executors."""
