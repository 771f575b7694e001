"""What runs tasks: jobs of Spark, and its Python workers."""
