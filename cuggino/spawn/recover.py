"""What follows from a denied tool: the smallest change of the manifest that allows it, or the reason why there is none.

Pure but for looking at where links in the sandbox lead. A denial is what the agent's protocol says is one; its words
are never looked at.
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
"""What programs call a tool → what it is called in a manifest, where that is another word."""
_PATHS = ("file_path", "filePath", "notebook_path", "absolute_path", "dir_path", "path")
"""The names that programs have for a tool's path."""

_WRITES = {**dict.fromkeys(("touch", "mkdir", "rm", "rmdir", "mv", "tee"), 0), "cp": -1, "ln": -1}
"""The programs that change what their arguments name → from which argument on."""

_DEVICES = re.compile(r"/dev/(null|zero|full|u?random|tty|std(in|out|err)|fd/\d+)")
_SECRET_NAME = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|PRIVATE_?KEY|ACCESS_?KEY")


class Fix(msgspec.Struct, frozen=True):
    """The manifest with which it is allowed, what is new in it as (field, value), and the same in words."""

    manifest: SandboxManifest
    added: tuple[tuple[str, str], ...]
    words: str


class CannotFix(msgspec.Struct, frozen=True):
    """No manifest would allow it, or none may."""

    reason: str


class Retry(msgspec.Struct, frozen=True):
    """Go on in the same conversation with this manifest."""

    manifest: SandboxManifest
    fixes: tuple[str, ...]


class Refuse(msgspec.Struct, frozen=True):
    """No further attempt."""

    reason: str
    limit_reached: bool = False


class Ask(msgspec.Struct, frozen=True):
    """A person is to decide about each of these."""

    fixes: tuple[tuple[Denial, Fix], ...]


Decision: TypeAlias = Retry | Refuse | Ask


def decide(
    strategy: Strategy,
    denials: Sequence[Denial],
    manifest: SandboxManifest,
    rounds_used: int,
    limit: int,
    *,
    bounds: Bounds,
    folder: Path,
    secrets_allowed: Sequence[str] = (),
) -> Decision:
    """What to do after an attempt in which there were denials. A round fixes all of them, or there is none.

    `limit` counts for `moderate` alone.
    """
    fixes: dict[tuple[tuple[str, str], ...], tuple[Denial, Fix]] = {}
    for denial in denials:
        match compute_fix(denial, manifest, bounds, folder, secrets_allowed):
            case Fix() as fix:
                fixes.setdefault(fix.added, (denial, fix))
            case CannotFix() as cannot:
                return Refuse(cannot.reason)
    if not fixes:
        return Refuse("nothing was denied")
    if strategy == "interactive":
        return Ask(tuple(fixes.values()))
    if strategy == "moderate" and rounds_used >= limit:
        return Refuse(f"the limit of permission escalations is reached ({limit})", limit_reached=True)
    new = [fix for _, fix in fixes.values()]
    return Retry(with_fixes(manifest, new), tuple(fix.words for fix in new))


def with_fixes(manifest: SandboxManifest, fixes: Iterable[Fix]) -> SandboxManifest:
    """The manifest with all that these fixes add, each thing once."""
    for field, value in dict.fromkeys(added for fix in fixes for added in fix.added):
        if value not in (there := getattr(manifest, field)):
            manifest = msgspec.structs.replace(manifest, **{field: (*there, value)})
    return manifest


_NO_CHANGE = "the manifest allows it already, and the agent's own rules deny it all the same"


def compute_fix(
    denial: Denial, manifest: SandboxManifest, bounds: Bounds, folder: Path, secrets_allowed: Sequence[str] = ()
) -> Fix | CannotFix:
    """The smallest change of the manifest that allows what was denied: this tool, this command, this path.

    `folder` is the sandbox, in which the agent works; `secrets_allowed` are the references that `spawn.secrets` lists.
    """
    given = denial.input if isinstance(denial.input, Mapping) else {}
    kind = _plain(denial.tool)
    if kind in {_plain(tool) for tool in bounds.tools}:
        return CannotFix(f"the tool {denial.tool} is denied in every sandbox")
    change = _Change(manifest)
    name = _CALLED.get(kind, denial.tool)
    if not {_plain(name), kind} & {_plain(tool) for tool in manifest.allowed_tools}:
        change.add("allowed_tools", name, f"the tool {name}")
    problem: str | None = None
    if kind in _SHELL:
        problem = _command(change, given.get("command"), bounds, folder, secrets_allowed)
    elif kind in _READ or kind in _WRITE:
        for path in _named(given):
            problem = problem or _path(change, path, bounds, folder, writing=kind in _WRITE)
    if problem is not None:
        return CannotFix(problem)
    return change.fix()


class _Change:
    """What is being added to a manifest."""

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


def _command(change: _Change, command: Any, bounds: Bounds, folder: Path, secrets: Sequence[str]) -> str | None:
    """Adds the command, and the secrets of the person's list that it names; or the reason why not."""
    if not isinstance(command, str) or not command.strip():
        return "it does not say which command"
    command = command.strip()
    if bound := runs(command, bounds.commands):
        return f"the command runs `{bound}`, which spawn.neverAllow denies"
    if unknown_program(command):
        return "the command runs a program whose name is not written in it"
    for path, written in _paths_in(command, folder):
        if reason := _forbidden(path, bounds, folder):
            return reason
        if written:
            _path(change, path, bounds, folder, writing=True)
    for name in _variables(command, change.manifest):
        reference = f"env:{name}"
        if reference in secrets:
            change.add("secrets", reference, f"the secret {reference}")
        elif _SECRET_NAME.search(name):
            return f"the secret {reference} is not in spawn.secrets"
    if not _allowed(change.manifest.allowed_commands, command):
        change.add("allowed_commands", exactly(command), f"the command `{command}`")
    return None


def _allowed(patterns: Sequence[str], command: str) -> bool:
    """As the programs see it: a pattern is for one command, and not for what that command writes by `>`."""
    if any(literal(pattern) == command for pattern in patterns):
        return True
    writes = any(not _DEVICES.fullmatch(path) for each in simple_commands(command) or () for path in each.written)
    return not writes and all(allows(patterns, piece) for piece in pieces(command))


def _path(change: _Change, path: str, bounds: Bounds, folder: Path, *, writing: bool) -> str | None:
    """Adds the path; or the reason why not."""
    inside = _inside(path, folder)
    if inside is None:
        return f"{path} is outside of the sandbox"
    if writing and matches(bounds.paths, inside):
        return f"{inside} may never be written to"
    field = "writable_paths" if writing else "readable_paths"
    if not matches(getattr(change.manifest, field), inside):
        if not _sayable(inside):
            return f"{inside} has signs that stand for others in a pattern"
        change.add(field, inside, f"{'writing' if writing else 'reading'} {inside}")
    return None


def _forbidden(path: str, bounds: Bounds, folder: Path) -> str | None:
    inside = _inside(path, folder)
    if inside is None:
        return f"{path} is outside of the sandbox"
    return f"{inside} may never be written to" if matches(bounds.paths, inside) else None


def _inside(path: str, folder: Path) -> str | None:
    """The path below the sandbox, links followed; None if it leads out. "." is the sandbox itself."""
    if "\0" in path or path.startswith("~"):
        return None
    try:
        return (folder / path).resolve().relative_to(folder.resolve()).as_posix()
    except (ValueError, OSError, RuntimeError):  # a loop of links is no place inside
        return None


def _paths_in(command: str, folder: Path) -> Iterator[tuple[str, bool]]:
    """What looks like a path in the command, and whether it is written to, as far as that is plain."""
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
    if word.startswith("/"):  # not the `/x/d` of a sed script
        return Path(word).parent.is_dir()
    return len(word) < 4096 and (word.startswith(".") or (folder / word).is_symlink() or "/" in word)


def _variables(command: str, manifest: SandboxManifest) -> list[str]:
    """The variables that it uses, does not set itself and does not have yet."""
    used = re.findall(r"\$\{?([A-Za-z_]\w*)|\bprintenv\s+([A-Za-z_]\w*)", command)
    names = dict.fromkeys(name or printed for name, printed in used)
    have = {*manifest.environment, *(each.removeprefix("env:") for each in manifest.secrets)}
    return [
        name for name in names if name not in have and not re.search(rf"(?<![\w$]){name}=|\bfor {name} in\b", command)
    ]


def _named(given: Mapping[str, Any]) -> list[str]:
    return [value for name in _PATHS if isinstance(value := given.get(name), str) and value]


def _sayable(path: str) -> bool:
    """Whether a path is its own pattern."""
    return not re.search(r"[*?]", path)


def _plain(tool: str) -> str:
    return re.sub(r"[\W_]", "", tool).lower()
