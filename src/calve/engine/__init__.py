"""The Spark session, its Java and its jars."""
