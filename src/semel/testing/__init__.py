"""Tools for trying a pipeline out: events whose verdicts are known beforehand."""
