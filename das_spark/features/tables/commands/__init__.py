"""Commands of the feature, a module each."""
