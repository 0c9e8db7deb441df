"""The neutral scripts for the scripted agent, which asks no model: they become the script that it plays.

The agent plays a whole run where a model is asked turn by turn, so a run continues until a turn uses no tool; the next
run, which is expected to resume the conversation, plays the turns after that. There are no requests to see: `requests`
is empty, and `asker` is called once, at the beginning, with an empty request. A connection can break (`Drop`) only
instead of an answer.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from cuggino.agents.scripted.script import ROLES
from tests.e2e.messages import Block, Drop, Fail, Say, Script, Spent, Stall, Turn, Use, Wait
from tests.e2e.provider import Asked, Asker

Step: TypeAlias = dict[str, Any]

_FAILURES = {401: "bad-key", 503: "overloaded", 529: "overloaded"}


class Nothing:
    """A request that was never made."""

    text = ""
    turn = 0
    tools: Sequence[str] = ()
    tool_results: Sequence[str] = ()
    conversation = ""


class ScriptedServed:
    """A script in a file: its path is the address."""

    def __init__(self, script: Path) -> None:
        self.url = str(script)

    @property
    def requests(self) -> Sequence[Asked]:
        return ()


class ScriptedProvider:
    """See `tests.e2e.provider.Provider`."""

    name = "scripted"

    @contextmanager
    def serve(self, asker: Asker) -> Iterator[ScriptedServed]:
        with tempfile.TemporaryDirectory(prefix="scripted-") as folder:
            file = Path(folder) / "script.json"
            file.write_text(json.dumps(_play(asker(Nothing()))))
            yield ScriptedServed(file)

    def environment(self, home: Path, url: str) -> dict[str, str]:
        """A server's address is nobody's to the scripted agent: it plays that nothing answers there."""
        script = Path(url)
        if url.startswith("http"):
            script = home / "nobody.json"
            script.write_text(json.dumps(_play([[Drop()]])))
        return {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "CUGGINO_SCRIPT": str(script)}


SCRIPTED = ScriptedProvider()


def _play(script: Script) -> dict[str, Any]:
    """The script for every role."""
    runs = [
        {"steps": [step for turn in run for step in _steps(turn)], "when": {"resumed": number > 0}}
        for number, run in enumerate(_runs(script))
    ]
    return dict.fromkeys(ROLES, runs)


def _runs(script: Script) -> Iterator[list[Turn]]:
    run: list[Turn] = []
    for turn in script:
        run.append(turn)
        if not any(isinstance(block, Use) for block in turn):
            yield run
            run = []
    if run:
        yield run


def _steps(turn: Turn) -> Iterator[Step]:
    spent = next((block for block in turn if isinstance(block, Spent)), Spent())
    for block in turn:
        yield from _step(block)
    yield {"do": "usage", "input": spent.input, "output": spent.output}


def _step(block: Block) -> Iterator[Step]:
    match block:
        case Say():
            yield {"do": "say", "text": list(block.parts)}
        case Use(name="shell"):
            yield {"do": "run", **block.input}
        case Use(name="write"):
            yield {"do": "write", "path": block.input["path"], "text": block.input["content"]}
        case Use(name="read"):
            yield {"do": "read", **block.input}
        case Fail(times=None):
            yield {"do": "fail", "kind": _FAILURES[block.status]}
        case Fail():
            yield {"do": "retry", "times": block.times, "status": block.status}
        case Wait():
            yield {"do": "think", "seconds": block.seconds, "silent": True}
        case Stall():
            yield {"do": "hang"}
        case Drop():
            yield {"do": "fail", "kind": "network"}
        case Spent() | Use():
            pass
