"""What a table is: its schema, its Arrow types, its definition in YAML and in SQL."""
