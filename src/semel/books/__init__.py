"""The record of what was planned and what was committed."""
