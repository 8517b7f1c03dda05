"""The default ledger: immutable sorted files beside the books, no server."""
