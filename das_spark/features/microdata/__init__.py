"""Microdata: records of people and units whose counts are the estimates."""
