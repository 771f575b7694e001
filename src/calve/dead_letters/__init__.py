"""Dead letters: their settings, their entries, who writes them, publishes them and reads them."""
