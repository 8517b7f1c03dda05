"""Identities as fixed-width keys: what a ledger stores and searches.

An id is 96 bits of its SHA-256, a fingerprint 64 bits of itself. A false duplicate needs the same id and an agreement
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
    """Parallel columns: `high` and `low` are the id's hash, `print` the fingerprint's first bits."""

    high: U64
    low: U32
    print: U64

    def between(self, first: int, last: int) -> Keys:
        return Keys(self.high[first:last], self.low[first:last], self.print[first:last])

    def take(self, chosen: NDArray[np.intp] | Flags) -> Keys:
        return Keys(self.high[chosen], self.low[chosen], self.print[chosen])


def keys_of(ids: Sequence[str], fingerprints: Sequence[str]) -> Keys:
    sha256 = hashlib.sha256
    digests = b"".join([sha256(text.encode()).digest() for text in ids])
    words = np.frombuffer(digests, dtype=">u8").reshape(-1, 4)
    high = words[:, 0].astype(np.uint64)
    low = (words[:, 1].astype(np.uint64) >> np.uint64(32)).astype(np.uint32)
    return Keys(high, low, _prints(fingerprints))


def _prints(fingerprints: Sequence[str]) -> U64:
    try:
        packed = bytes.fromhex("".join([text[:16] for text in fingerprints]))
        if len(packed) == 8 * len(fingerprints) and all(len(text) >= 16 for text in fingerprints):
            return np.frombuffer(packed, dtype=">u8").astype(np.uint64)
    except ValueError:
        pass
    return np.array([_print(text) for text in fingerprints], dtype=np.uint64)


def _print(text: str) -> int:
    """Hex of at least 64 bits is taken as it is; any other text is hashed first."""
    head = text[:16]
    if len(head) == 16 and all(digit in "0123456789abcdef" for digit in head):
        return int(head, 16)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
