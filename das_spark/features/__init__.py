"""The features room: outputs that not every run has, a folder each, which know no other feature.

A feature is registered by one line, in `das_spark.config.features.FEATURES`. Its `settings.py` is a part of the
configuration and knows no more than that does; its `feature.py` says what the runner, preflight, the manifest and
verification must know of it (`das_spark.pipeline.features.Feature`), and `rules.py` judges what the rest has made.
"""
