"""A role or a manifest → a permission profile, which codex's own sandbox enforces for the commands that it runs.

A profile gives access to exact paths and to everything below them. What codex cannot express is widened; settling the
sandbox checks it afterwards:

- A single file cannot be made writable. Its directory is, and existing files beside it are made read-only again.
- Patterns with wildcards are widened to the directory in which they begin.
- Commands are not distinguished, and the network is open: a manifest does not cover it, and checks need it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from cuggino.agents.agent import AgentOptions
from cuggino.agents.launching import toml
from cuggino.manifest import Permits

_PROFILE = "cuggino"

# codex protects these in every directory that it may write to. If they are missing, it creates empty directories in
# their place, and leaves them behind when it is stopped: so missing ones are made writable like everything else.
_PROTECTED = (".git", ".codex", ".agents", ".aws")

_SETTINGS = (".codex", ".agents")
"""A project's settings: an agent in a sandbox must not prepare anything for the next one. codex protects them unless
they are made writable."""

_TEMPORARY = {":tmpdir": "write", ":slash_tmp": "write"}


def permissions(options: AgentOptions) -> list[str]:
    """Return the arguments for a run without a person."""
    argv = []
    if options.permits is not None:
        argv += _tools(options.permits)
    if options.role.read_only:
        return [*argv, *for_folders(options.cwd, options.writable)]
    if options.permits is not None:
        return [*argv, *_profile(_sandbox(options, options.permits))]
    return ["--dangerously-bypass-approvals-and-sandbox"] if options.skip_permissions else []


def for_folders(cwd: Path, writable: Sequence[Path]) -> list[str]:
    """Allow reading everything, and writing to these directories and files and to temporary ones."""
    return _profile({**_reading(cwd.resolve()), **_writing([cwd / path for path in writable])})


def _profile(access: Mapping[str, str]) -> list[str]:
    entries = ",".join(f"{toml(path)}={toml(mode)}" for path, mode in access.items())
    profile = f"permissions.{_PROFILE}={{filesystem={{{entries}}},network={{enabled=true}}}}"
    return ["-c", f"default_permissions={toml(_PROFILE)}", "-c", profile]


def _reading(cwd: Path) -> dict[str, str]:
    """Return read access. `cwd` is named because it may be in the directory for temporary files."""
    return {":root": "read", **_TEMPORARY, str(cwd): "read"}


def _writing(paths: Iterable[Path]) -> dict[str, str]:
    real = {path.resolve() for path in paths}
    folders = {path for path in real if path.is_dir()}
    access = {}
    for folder in sorted(folders | {path.parent for path in real - folders}):
        access[str(folder)] = "write"
        if folder not in folders:
            access |= {str(path): "read" for path in _entries(folder) if path not in real}
        access |= {str(path): "write" for name in _PROTECTED if not os.path.lexists(path := folder / name)}
    return access


def _entries(folder: Path) -> list[Path]:
    """Return its entries, except symbolic links, which codex cannot protect."""
    try:
        return sorted(path for path in folder.iterdir() if not path.is_symlink())
    except OSError:
        return []


def _sandbox(options: AgentOptions, permits: Permits) -> dict[str, str]:
    cwd = options.cwd.resolve()
    given = [(cwd / path).resolve() for path in options.writable]
    writable = [*_inside(cwd, permits.manifest.writable_paths), *given]
    readable = [cwd / ".git", *_inside(cwd, permits.manifest.readable_paths), *writable]
    access = {**_reading(cwd), **_writing(writable), **{str(path): "deny" for path in _unread(cwd, readable)}}
    for pattern in permits.bounds.paths:
        path = cwd / _beginning(pattern)
        if _has_wildcards(pattern.removesuffix("/**")) or access.get(str(path)) == "deny":
            continue
        # codex bars a missing path with an empty file in its place, which must be possible there.
        if path.exists() or _can_make(path, access):
            access[str(path)] = "read"
    settings = {str(cwd / name) for name in _SETTINGS}
    return {path: mode for path, mode in access.items() if path not in settings or mode != "write"}


def _can_make(path: Path, access: Mapping[str, str]) -> bool:
    nearest = next((access[str(folder)] for folder in path.parents if str(folder) in access), "read")
    return path.parent.is_dir() and nearest == "write"


def _unread(folder: Path, readable: Sequence[Path]) -> Iterator[Path]:
    """Yield what must not be read in a directory. codex cannot allow reading below a directory that is denied."""
    for path in _entries(folder):
        if any(path.is_relative_to(each) for each in readable):
            continue
        if any(each.is_relative_to(path) for each in readable):
            yield from _unread(path, readable)
        else:
            yield path


def _inside(cwd: Path, patterns: Iterable[str]) -> list[Path]:
    """Return where patterns begin, except outside of the directory."""
    found = ((cwd / _beginning(pattern)).resolve() for pattern in patterns)
    return [path for path in found if path.is_relative_to(cwd)]


def _beginning(pattern: str) -> str:
    """Return the path that a pattern is, or the directory that contains all its matches."""
    parts = PurePosixPath(pattern.removeprefix("./")).parts
    return "/".join(parts[: next((number for number, part in enumerate(parts) if _has_wildcards(part)), len(parts))])


def _has_wildcards(text: str) -> bool:
    return "*" in text or "?" in text


def _tools(permits: Permits) -> list[str]:
    """Remove the tools that start agents, and others unless the manifest has them."""
    settings = ["agents.enabled=false"]
    if not _allows(permits, "Bash"):
        settings.append("features.shell_tool=false")
    if not _allows(permits, "WebSearch", "WebFetch"):
        settings.append('web_search="disabled"')
    return [part for setting in settings for part in ("-c", setting)]


def _allows(permits: Permits, *tools: str) -> bool:
    return any(tool in permits.manifest.allowed_tools and tool not in permits.bounds.tools for tool in tools)
