"""Counts, audit and progress."""
