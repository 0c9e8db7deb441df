"""gh, which pull requests and `cuggino ci` need; checked only if they are configured."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from cuggino.config import CiSettings, Config
from cuggino.doctor.finding import Finding, failure, ok, warning
from cuggino.doctor.programs import Programs

_TOKENS = ("GH_TOKEN", "GITHUB_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN")


def is_needed(config: Config) -> bool:
    return config.ci != CiSettings() or config.spawn.integrate == "pr"


async def github(programs: Programs) -> list[Finding]:
    try:
        answer = await programs.ask("gh", "--version")
    except OSError as error:
        return [failure("gh", f"cannot run gh: {error.strerror}", "apt-get install gh    (macOS: brew install gh)")]
    if answer is None:
        return [warning("gh", "gh does not answer", "gh --version"), login(programs.environment)]
    if answer.status != 0:
        return [failure("gh", f"`gh --version` failed: {answer.message}", "apt-get install gh")]
    return [ok("gh", answer.out.partition("\n")[0].removeprefix("gh version ")), login(programs.environment)]


def login(environment: Mapping[str, str]) -> Finding:
    """Check the environment and gh's own file, since `gh auth status` would send a request to GitHub."""
    if name := next((name for name in _TOKENS if environment.get(name)), None):
        return ok("gh login", f"{name} is set")
    hosts = _config_directory(environment) / "hosts.yml"
    try:
        text = hosts.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    if host := re.search(r"^(\S+):\s*\n(?:[ \t].*\n)*?[ \t]+(?:user|oauth_token):[ \t]*\S", text, re.MULTILINE):
        return ok("gh login", f"logged in to {host[1]}, according to {hosts}")
    return failure("gh login", "not logged in, according to its file and the environment", "gh auth login")


def _config_directory(environment: Mapping[str, str]) -> Path:
    if own := environment.get("GH_CONFIG_DIR"):
        return Path(own)
    home = Path(environment.get("HOME") or Path.home())
    return Path(environment.get("XDG_CONFIG_HOME") or home / ".config") / "gh"
