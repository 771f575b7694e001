"""Where in the log of which server reading begins and goes on."""
