"""Ids that semel makes: the derived id of a conflict, and the one id of a composite business key."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from typing import Final

DERIVED_ID_NAMESPACE: Final = uuid.UUID("1c1181f6-cf50-5f24-8bca-ab5c314ea8f0")
_SEPARATOR: Final = "\u001f"


def derived_id(original: str, fingerprint: str) -> str:
    """The id under which a conflict is accepted; `fingerprint` is lower-case hex.

    >>> derived_id("evt-1", "00ff")
    'b4ed62fa-7535-587e-a2ef-d9c570bb9415'
    """
    return str(uuid.uuid5(DERIVED_ID_NAMESPACE, f"{original}{_SEPARATOR}{fingerprint}"))


def composite_id(parts: Sequence[str]) -> str:
    """Several fields as one id, so that no two different keys come out the same.

    >>> composite_id(["shop-7", "order,12"])
    '["shop-7","order,12"]'
    """
    return json.dumps(list(parts), ensure_ascii=False, separators=(",", ":"))
