"""Rows of records with a key: its columns identify the row, and a record without a value deletes it."""
