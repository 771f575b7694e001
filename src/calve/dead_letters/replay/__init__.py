"""Dead letters that are sent again, each once."""
