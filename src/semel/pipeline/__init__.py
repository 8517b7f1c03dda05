"""A pipeline: its file, its plan, its runs."""
