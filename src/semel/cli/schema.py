"""`semel schema`."""

from __future__ import annotations

import json
from argparse import Namespace

from semel.pipeline.config import config_json_schema


def schema(_: Namespace) -> int:
    print(json.dumps(config_json_schema(), indent=2))
    return 0
