"""Files: readers of census records, writers of microdata, the folder of a run, its journal and manifests."""
