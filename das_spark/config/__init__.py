"""A run, as typed frozen values: read from TOML, checked as a whole, resolved against a product. No Spark, no data."""
