"""Identities as fixed-width keys: what a ledger stores and searches.

An id is 96 bits of its SHA-256, a fingerprint 64 bits of its own. A false duplicate needs the same id and an agreement
of 64 fingerprint bits, or a collision of all 160; a false conflict needs 96 bits to agree.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

U64 = NDArray[np.uint64]
U32 = NDArray[np.uint32]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Keys(NamedTuple):
    """Parallel columns: `high` and `low` are the id's hash, `print` the first bits of the fingerprint's."""

    high: U64
    low: U32
    print: U64

    def between(self, first: int, last: int) -> Keys:
        return Keys(self.high[first:last], self.low[first:last], self.print[first:last])

    def take(self, chosen: NDArray[np.intp] | Flags) -> Keys:
        return Keys(self.high[chosen], self.low[chosen], self.print[chosen])


def keys_of(ids: Sequence[str], fingerprints: Sequence[str]) -> Keys:
    """A fingerprint may be any text that a producer made up, so it is hashed too: its own bits may be all alike."""
    of_ids, of_prints = _digests(ids), _digests(fingerprints)
    low = (of_ids[:, 1] >> np.uint64(32)).astype(np.uint32)
    return Keys(of_ids[:, 0], low, of_prints[:, 0])


def _digests(texts: Sequence[str]) -> U64:
    sha256 = hashlib.sha256
    joined = b"".join([sha256(text.encode()).digest() for text in texts])
    return np.frombuffer(joined, dtype=">u8").reshape(-1, 4).astype(np.uint64)
