"""The changes of a table by the format's name, `spark.read.format("calve_changes")`."""
