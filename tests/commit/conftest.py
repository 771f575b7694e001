from commit.lake_table import lake, schema_json

__all__ = ["lake", "schema_json"]
