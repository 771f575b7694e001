"""What the changes of one batch add up to, key by key, before anything is written."""
