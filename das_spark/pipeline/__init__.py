"""The pipeline room: stages of a run, and the runner that goes through them."""
