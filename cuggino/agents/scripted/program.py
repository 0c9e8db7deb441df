"""The program: its arguments, its script and turn, its exit code. It does not import Trio, to start quickly."""

from __future__ import annotations

import argparse
import os
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path

from cuggino.agents.scripted import BAD_SCRIPT
from cuggino.agents.scripted.lines import LinePrinter, TextPrinter
from cuggino.agents.scripted.play import Player
from cuggino.agents.scripted.played import PlayedTurns
from cuggino.agents.scripted.script import ROLES, ScriptError, Situation, Turn, choose, decode
from cuggino.agents.scripted.signals import Interrupted, SignalHandler

SCRIPT_VARIABLE = "CUGGINO_SCRIPT"
"""Names the script. The default is the project's `.cuggino/script.json`, or else the built-in one."""


def main(arguments: Sequence[str]) -> int:
    """Play one turn; return the exit code."""
    signals = SignalHandler()
    signals.install()
    options = _parser().parse_args(arguments)
    cwd = Path.cwd()
    session_id = options.resume or options.session_id or str(uuid.uuid4())
    kind = TextPrinter if options.interactive else LinePrinter
    lines = kind(1, session_id=session_id, cwd=str(cwd), model=options.model)
    player = Player(lines, signals, cwd=cwd, session_id=session_id)
    try:
        prompt = options.prompt
        if not options.interactive:
            with signals.interruptible():
                prompt = sys.stdin.buffer.read().decode(errors="replace")
        situation = Situation(
            role="interactive" if options.interactive else options.role,
            cwd=cwd,
            python=sys.executable,
            prompt=prompt,
            resumed=options.resume is not None,
            writable=tuple(options.writable),
        )
        return _play_next(find_script(cwd), situation, player, lines)
    except ScriptError as error:
        print(f"scripted: {error}", file=sys.stderr)
        return BAD_SCRIPT
    except Interrupted:
        return player.interrupted()


def find_script(cwd: Path) -> Path | None:
    """Return the script for this directory; None for the built-in one."""
    if named := os.environ.get(SCRIPT_VARIABLE):
        return cwd / named
    root = next((folder for folder in (cwd, *cwd.parents) if (folder / ".cuggino.json").exists()), cwd)
    script = root / ".cuggino" / "script.json"
    return script if script.exists() else None


def _play_next(path: Path | None, situation: Situation, player: Player, lines: LinePrinter) -> int:
    file = path or Path(__file__).with_name("built_in.json")
    try:
        content = file.read_bytes()
    except OSError as error:
        raise ScriptError(f"the script cannot be read: {error}") from error
    played = PlayedTurns(file, content)

    def take(number: int, turn: Turn) -> bool:
        if turn.times == 0:
            return True
        ask = played.is_left if turn.retake else played.claim
        return ask(situation.role, number, turn.times)

    chosen = choose(decode(content, str(file)), situation, take)
    if chosen is None:
        hint = f"Delete {played.folder} to play it from the start."
        lines.text([f"The script {file} has no turn left for the {situation.role}. {hint}"])
        lines.result()
        return 0
    number, turn = chosen
    status = player.play(turn.steps)
    if turn.retake and turn.times:
        played.claim(situation.role, number, turn.times)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m cuggino.agents.scripted",
        description="Plays the next turn of a script as an agent would. The prompt is read from stdin.",
    )
    parser.add_argument("--role", choices=ROLES, default="implementer")
    parser.add_argument("--session-id", metavar="ID", help="start a conversation with this ID")
    parser.add_argument("--resume", metavar="ID", help="resume this conversation")
    parser.add_argument("--writable", metavar="PATH", type=Path, action="append", default=[])
    parser.add_argument("--model", default="scripted")
    parser.add_argument("--interactive", action="store_true", help="talk to a person, in plain text")
    parser.add_argument("--prompt", default="", help="the prompt, when interactive")
    return parser
