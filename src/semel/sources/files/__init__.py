"""Files as a source: JSON lines, CSV, Parquet; plain, gzip or zstd.

Guarantee: a record is file and byte offset (row, for Parquet), the same under any split size, core count or rerun. It
needs files that do not change after they appear: write them under a hidden name and rename.
"""
