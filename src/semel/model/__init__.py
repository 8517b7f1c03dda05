"""The pure core: records, their columns, times, ids and verdicts."""
