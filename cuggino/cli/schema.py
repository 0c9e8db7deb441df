"""`cuggino schema`: the configuration and the events, for editors and programs."""

from __future__ import annotations

import json
from typing import Literal

from cuggino.schema import config_schema, events_schema


def schema(kind: Literal["config", "events"] = "config", /) -> int:
    """Print the JSON Schema of `.cuggino.json`, or of the events in logs and of `--json`.

    Example: cuggino schema > cuggino.schema.json

    Parameters
    ----------
    kind
        `config` or `events`.
    """
    print(json.dumps(config_schema() if kind == "config" else events_schema(), indent=2))
    return 0
