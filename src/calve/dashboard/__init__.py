"""Web pages about the pipelines of a state folder; they read status files and never touch a run."""
