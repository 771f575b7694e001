"""The spark source: DataFrames of a user's own Spark job, each kept in the state until it is committed."""
