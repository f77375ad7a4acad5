"""The Spark room: DataFrame in, DataFrame out, never a path."""
