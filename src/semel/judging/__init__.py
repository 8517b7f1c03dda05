"""The stages between source and feeds."""
