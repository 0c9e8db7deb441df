"""Recover from denied tools: the smallest change of the manifest that allows each, or the reason why there is none.

Pure, except for following links in the sandbox. Only the agent's protocol says what was denied, never its text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from cuggino.agents.agent import Denial
from cuggino.commands import allows, exactly, literal, pieces, runs, simple_commands, unknown_program
from cuggino.manifest import Bounds, SandboxManifest, matches

Strategy: TypeAlias = Literal["moderate", "aggressive", "interactive"]

_READ = frozenset(
    {"read", "readfile", "readmanyfiles", "glob", "grep", "grepsearch", "listdirectory", "ls", "list"}
    | {"searchfilecontent"}
)
_WRITE = frozenset({"write", "writefile", "edit", "multiedit", "replace", "notebookedit", "patch", "applypatch"})
_SHELL = frozenset({"bash", "shell", "runshellcommand", "commandexecution"})
_CALLED = {
    **dict.fromkeys(("readfile", "readmanyfiles", "listdirectory", "ls", "list"), "Read"),
    **dict.fromkeys(("grepsearch", "searchfilecontent"), "Grep"),
    "writefile": "Write",
    **dict.fromkeys(("multiedit", "replace", "patch", "applypatch"), "Edit"),
    **dict.fromkeys(("shell", "runshellcommand", "commandexecution"), "Bash"),
}
"""A program's name for a tool → the manifest's name, where they differ."""
_PATHS = ("file_path", "filePath", "notebook_path", "absolute_path", "dir_path", "path")
"""The keys of a tool's input that hold a path, in all programs."""

_WRITES = {**dict.fromkeys(("touch", "mkdir", "rm", "rmdir", "mv", "tee"), 0), "cp": -1, "ln": -1}
"""Programs that write to the paths in their arguments → the index of the first such argument."""

_DEVICES = re.compile(r"/dev/(null|zero|full|u?random|tty|std(in|out|err)|fd/\d+)")
_SECRET_NAME = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|PRIVATE_?KEY|ACCESS_?KEY")


class FixRules(msgspec.Struct, frozen=True, kw_only=True):
    """What decides whether a denial can be fixed.

    `folder` is the sandbox in which the agent works; `secrets` are the references that `spawn.secrets` lists.
    """

    bounds: Bounds
    folder: Path
    secrets: Sequence[str] = ()


class Fix(msgspec.Struct, frozen=True):
    """A manifest that allows what was denied. `added` is what is new in it, as (field, value)."""

    manifest: SandboxManifest
    added: tuple[tuple[str, str], ...]
    words: str


class CannotFix(msgspec.Struct, frozen=True):
    """No manifest allows it, or none may."""

    reason: str


class Escalate(msgspec.Struct, frozen=True):
    """Resume the conversation with this manifest."""

    manifest: SandboxManifest
    fixes: tuple[str, ...]


class Refuse(msgspec.Struct, frozen=True):
    """No further attempt."""

    reason: str
    limit_reached: bool = False


class Ask(msgspec.Struct, frozen=True):
    """Ask the person about each of these."""

    fixes: tuple[tuple[Denial, Fix], ...]


Decision: TypeAlias = Escalate | Refuse | Ask


def decide(
    strategy: Strategy,
    denials: Sequence[Denial],
    manifest: SandboxManifest,
    rules: FixRules,
    *,
    rounds: int,
    limit: int,
) -> Decision:
    """Return what to do after an attempt with denials: fix all of them, or none.

    `rounds` is how many escalations there were; `limit` is the maximum, for `moderate` only.
    """
    fixes: dict[tuple[tuple[str, str], ...], tuple[Denial, Fix]] = {}
    for denial in denials:
        match compute_fix(denial, manifest, rules):
            case Fix() as fix:
                fixes.setdefault(fix.added, (denial, fix))
            case CannotFix() as cannot:
                return Refuse(cannot.reason)
    if not fixes:
        return Refuse("nothing was denied")
    if strategy == "interactive":
        return Ask(tuple(fixes.values()))
    if strategy == "moderate" and rounds >= limit:
        return Refuse(f"the limit of permission escalations is reached ({limit})", limit_reached=True)
    new = [fix for _, fix in fixes.values()]
    return Escalate(with_fixes(manifest, new), tuple(fix.words for fix in new))


def with_fixes(manifest: SandboxManifest, fixes: Iterable[Fix]) -> SandboxManifest:
    """Return the manifest with everything that these fixes add, without duplicates."""
    for field, value in dict.fromkeys(added for fix in fixes for added in fix.added):
        if value not in (there := getattr(manifest, field)):
            manifest = msgspec.structs.replace(manifest, **{field: (*there, value)})
    return manifest


_NO_CHANGE = "the manifest allows it already, but the agent's own rules deny it"


def compute_fix(denial: Denial, manifest: SandboxManifest, rules: FixRules) -> Fix | CannotFix:
    """Return the smallest change of the manifest that allows what was denied: this tool, this command, this path."""
    given = denial.input if isinstance(denial.input, Mapping) else {}
    kind = _plain(denial.tool)
    if kind in {_plain(tool) for tool in rules.bounds.tools}:
        return CannotFix(f"the tool {denial.tool} is denied in every sandbox")
    change = _Change(manifest)
    name = _CALLED.get(kind, denial.tool)
    if not {_plain(name), kind} & {_plain(tool) for tool in manifest.allowed_tools}:
        change.add("allowed_tools", name, f"the tool {name}")
    problem: str | None = None
    if kind in _SHELL:
        problem = _add_command(change, given.get("command"), rules)
    elif kind in _READ or kind in _WRITE:
        for path in _paths_of(given):
            problem = problem or _add_path(change, path, rules, writing=kind in _WRITE)
    if problem is not None:
        return CannotFix(problem)
    return change.fix()


class _Change:
    """Additions to a manifest."""

    def __init__(self, manifest: SandboxManifest) -> None:
        self.manifest = manifest
        self.added: list[tuple[str, str]] = []
        self.words: list[str] = []

    def add(self, field: str, value: str, words: str) -> None:
        self.added.append((field, value))
        self.words.append(words)

    def fix(self) -> Fix | CannotFix:
        if not self.added:
            return CannotFix(_NO_CHANGE)
        alone = Fix(self.manifest, tuple(self.added), "allow " + ", ".join(self.words))
        return msgspec.structs.replace(alone, manifest=with_fixes(self.manifest, [alone]))


def _add_command(change: _Change, command: Any, rules: FixRules) -> str | None:
    """Add the command, and the listed secrets that it uses; or return the reason why not."""
    if not isinstance(command, str) or not command.strip():
        return "its input holds no command"
    command = command.strip()
    if bound := runs(command, rules.bounds.commands):
        return f"the command runs `{bound}`, which spawn.neverAllow denies"
    if unknown_program(command):
        return "the command runs a program whose name is computed"
    for path, written in _paths_in(command, rules.folder):
        if reason := _forbidden(path, rules):
            return reason
        if written:
            _add_path(change, path, rules, writing=True)
    for name in _variables(command, change.manifest):
        reference = f"env:{name}"
        if reference in rules.secrets:
            change.add("secrets", reference, f"the secret {reference}")
        elif _SECRET_NAME.search(name):
            return f"the secret {reference} is not in spawn.secrets"
    if not _allowed(change.manifest.allowed_commands, command):
        change.add("allowed_commands", exactly(command), f"the command `{command}`")
    return None


def _allowed(patterns: Sequence[str], command: str) -> bool:
    """As the agents' programs see it: a pattern allows one command, but no redirection to a file."""
    if any(literal(pattern) == command for pattern in patterns):
        return True
    writes = any(not _DEVICES.fullmatch(path) for each in simple_commands(command) or () for path in each.written)
    return not writes and all(allows(patterns, piece) for piece in pieces(command))


def _add_path(change: _Change, path: str, rules: FixRules, *, writing: bool) -> str | None:
    """Add the path, or return the reason why not."""
    inside = _inside(path, rules.folder)
    if inside is None or (writing and matches(rules.bounds.paths, inside)):
        return _forbidden(path, rules)
    field = "writable_paths" if writing else "readable_paths"
    if not matches(getattr(change.manifest, field), inside):
        if re.search(r"[*?]", inside):
            return f"{inside} contains wildcards, so a pattern would allow more than this path"
        change.add(field, inside, f"{'writing' if writing else 'reading'} {inside}")
    return None


def _forbidden(path: str, rules: FixRules) -> str | None:
    """Return why no manifest may allow to write to the path."""
    inside = _inside(path, rules.folder)
    if inside is None:
        return f"{path} is outside of the sandbox"
    return f"{inside} may never be written to" if matches(rules.bounds.paths, inside) else None


def _inside(path: str, folder: Path) -> str | None:
    """Return the path relative to the sandbox, with links resolved; None if it is outside."""
    if "\0" in path or path.startswith("~"):
        return None
    try:
        return (folder / path).resolve().relative_to(folder.resolve()).as_posix()
    except (ValueError, OSError, RuntimeError):  # such as a loop of links
        return None


def _paths_in(command: str, folder: Path) -> Iterator[tuple[str, bool]]:
    """Yield what looks like a path in the command, and whether the command plainly writes to it."""
    for simple in simple_commands(command) or ():
        arguments = [word for word in simple.words[1:] if not word.startswith("-")]
        written = {*simple.written, *arguments[_WRITES.get(simple.program, len(arguments)) :]}
        for word in (*simple.words[1:], *simple.written, *simple.fed):
            for part in dict.fromkeys((word, word.partition("=")[2])):
                if not part or part.isdigit() or _DEVICES.fullmatch(part):
                    continue
                if part in written or _looks_like_path(part, folder):
                    yield part, part in written


def _looks_like_path(word: str, folder: Path) -> bool:
    if word.startswith("~") or ".." in word.split("/"):
        return True
    if word.startswith("/"):  # but not the `/x/d` of a sed script
        return Path(word).parent.is_dir()
    return len(word) < 4096 and (word.startswith(".") or (folder / word).is_symlink() or "/" in word)


def _variables(command: str, manifest: SandboxManifest) -> list[str]:
    """Return the variables that the command uses, and that neither it nor the manifest sets."""
    used = re.findall(r"\$\{?([A-Za-z_]\w*)|\bprintenv\s+([A-Za-z_]\w*)", command)
    names = dict.fromkeys(name or printed for name, printed in used)
    have = {*manifest.environment, *(each.removeprefix("env:") for each in manifest.secrets)}
    return [
        name for name in names if name not in have and not re.search(rf"(?<![\w$]){name}=|\bfor {name} in\b", command)
    ]


def _paths_of(given: Mapping[str, Any]) -> list[str]:
    return [value for name in _PATHS if isinstance(value := given.get(name), str) and value]


def _plain(tool: str) -> str:
    return re.sub(r"[\W_]", "", tool).lower()
