"""Estimates by geounits of the census, where the spine has others."""
