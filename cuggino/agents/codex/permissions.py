"""What an agent may do, as codex's own sandbox enforces it: a permission profile for the commands that it runs.

A profile gives access to exact paths and to all below them. What codex cannot express is made wider, and is for others
to check afterwards:

- A single file cannot be made writable. Its folder is, and what already lies beside the file is made read-only again.
- Patterns with signs in them are widened to the folder in which they begin.
- Commands are not told apart, and the network is open: a manifest does not speak of it, and checks need it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from cuggino.agents.agent import AgentOptions
from cuggino.manifest import Permits

_PROFILE = "cuggino"

# codex protects these in every folder that it may write to. Where they do not exist, it puts empty folders in their
# place, and leaves them behind when it is stopped: so they are made writable like all else, unless they are there.
_PROTECTED = (".git", ".codex", ".agents", ".aws")

_SETTINGS = (".codex", ".agents")
"""Those of a project: an agent in a sandbox must not set anything up for the next one. Without a word they are
protected."""

_TEMPORARY = {":tmpdir": "write", ":slash_tmp": "write"}


def permissions(options: AgentOptions) -> list[str]:
    """The arguments for a run without a person."""
    argv = []
    if options.permits is not None:
        argv += _tools(options.permits)
    if options.role.read_only:
        return [*argv, *for_folders(options.cwd, options.writable)]
    if options.permits is not None:
        return [*argv, *_profile(_sandbox(options, options.permits))]
    return ["--dangerously-bypass-approvals-and-sandbox"] if options.skip_permissions else []


def for_folders(cwd: Path, writable: Sequence[Path]) -> list[str]:
    """Reading everything, and writing to these folders and files and to temporary ones."""
    return _profile({**_reading(cwd.resolve()), **_writing([cwd / path for path in writable])})


def quoted(text: str) -> str:
    """A string in TOML: JSON's, but for what TOML alone forbids."""
    whole = text.encode(errors="replace").decode()
    return json.dumps(whole, ensure_ascii=False).replace("\x7f", "\\u007f")


def _profile(access: Mapping[str, str]) -> list[str]:
    entries = ",".join(f"{quoted(path)}={quoted(mode)}" for path, mode in access.items())
    profile = f"permissions.{_PROFILE}={{filesystem={{{entries}}},network={{enabled=true}}}}"
    return ["-c", f"default_permissions={quoted(_PROFILE)}", "-c", profile]


def _reading(cwd: Path) -> dict[str, str]:
    """`cwd` is named since it may lie in the folder for temporary files."""
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
    """What lies in it, without symbolic links: nothing can be put over these."""
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
        if _has_signs(pattern.removesuffix("/**")) or access.get(str(path)) == "deny":
            continue
        # What is not there is barred by an empty file in its place, for which there must be one.
        if path.exists() or _can_make(path, access):
            access[str(path)] = "read"
    settings = {str(cwd / name) for name in _SETTINGS}
    return {path: mode for path, mode in access.items() if path not in settings or mode != "write"}


def _can_make(path: Path, access: Mapping[str, str]) -> bool:
    nearest = next((access[str(folder)] for folder in path.parents if str(folder) in access), "read")
    return path.parent.is_dir() and nearest == "write"


def _unread(folder: Path, readable: Sequence[Path]) -> Iterator[Path]:
    """What lies in a folder and is not to be read. codex opens no folder again for reading below one that is denied."""
    for path in _entries(folder):
        if any(path.is_relative_to(each) for each in readable):
            continue
        if any(each.is_relative_to(path) for each in readable):
            yield from _unread(path, readable)
        else:
            yield path


def _inside(cwd: Path, patterns: Iterable[str]) -> list[Path]:
    """Where patterns begin; not what leads out of the folder."""
    found = ((cwd / _beginning(pattern)).resolve() for pattern in patterns)
    return [path for path in found if path.is_relative_to(cwd)]


def _beginning(pattern: str) -> str:
    """The path that a pattern is, or the folder in which all that it matches lies."""
    parts = PurePosixPath(pattern.removeprefix("./")).parts
    return "/".join(parts[: next((number for number, part in enumerate(parts) if _has_signs(part)), len(parts))])


def _has_signs(text: str) -> bool:
    return "*" in text or "?" in text


def _tools(permits: Permits) -> list[str]:
    """Agents start no agents here; the other tools that can be taken out are in when the manifest has them."""
    settings = ["agents.enabled=false"]
    if not _allows(permits, "Bash"):
        settings.append("features.shell_tool=false")
    if not _allows(permits, "WebSearch", "WebFetch"):
        settings.append('web_search="disabled"')
    return [part for setting in settings for part in ("-c", setting)]


def _allows(permits: Permits, *tools: str) -> bool:
    return any(tool in permits.manifest.allowed_tools and tool not in permits.bounds.tools for tool in tools)
