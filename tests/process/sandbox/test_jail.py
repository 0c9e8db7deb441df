"""An agent's git works in a sandbox and finds no credentials; in a jail the agent changes nothing outside.

The jail is the one that the documentation recommends. Its tests need bubblewrap, and a kernel that allows it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from cuggino.agents.claude import ClaudeBackend
from cuggino.manifest import SandboxManifest
from cuggino.sandbox.environment import build_environment, git_variables, launcher
from cuggino.sandbox.provision import provision
from cuggino.sandbox.removal import remove
from cuggino.sandbox.sandbox import Sandbox
from cuggino.sandbox.settle import settle
from tests.process.sandbox.person import LAUNCHER, Person, git, listing, permits, write

JAIL = (
    *("bwrap", "--die-with-parent", "--unshare-pid", "--unshare-ipc"),
    *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"),
    *("--tmpfs", "/run", "--ro-bind-try", "/run/systemd/resolve", "/run/systemd/resolve"),
    *("--bind", "{sandbox}.home", "{home}", "--ro-bind-try", "{home}/.local/bin", "{home}/.local/bin"),
    *("--bind", "{sandbox}", "{sandbox}", "--"),
)


def _jails_work() -> bool:
    if shutil.which("bwrap") is None:
        return False
    words = ["bwrap", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "true"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


needs_bubblewrap = pytest.mark.skipif(not _jails_work(), reason="bubblewrap is not installed or not allowed")


def run(sandbox: Sandbox, script: str, environment: Mapping[str, str], jail: tuple[str, ...] = ()) -> tuple[str, str]:
    """Run a script as an agent would. Return stdout and stderr."""
    words = [*launcher(jail, sandbox), "sh", "-c", script]
    done = subprocess.run(words, cwd=sandbox.root, env=environment, capture_output=True, check=False, text=True)
    return done.stdout, done.stderr


async def environment_of(sandbox: Sandbox) -> dict[str, str]:
    return build_environment(
        ClaudeBackend().login_environment, SandboxManifest(), {}, os.environ, await git_variables(sandbox)
    )


@needs_bubblewrap
async def test_a_jailed_agent_works_and_changes_nothing_outside(person: Person, tmp_path: Path) -> None:
    home = Path(os.environ["HOME"])
    write(home / ".ssh" / "id_ed25519", "a private key")
    write(home / "notes", "the person's")
    before = person.belongings()
    sandbox = await provision(person.project, person.config(launcher=JAIL))
    hook = person.top / ".git" / "hooks" / "post-commit"
    outside = [person.top / "kept", hook, home / "notes", tmp_path / "anywhere"]
    script = f"""
        set -u
        echo work > kept && echo new > new && git add --all && git commit -qm "the agent's" && git log --format=%an%s -1
        cat ~/.ssh/id_ed25519
        for path in {" ".join(f"'{path}'" for path in outside)} /etc/cuggino-was-here; do
            mkdir -p "$(dirname "$path")"; echo evil > "$path"
        done
        for hook in pre-commit post-commit post-checkout reference-transaction post-merge pre-push; do
            printf '#!/bin/sh\\ntouch {tmp_path}/trace\\n' > .git/hooks-$hook
            mkdir -p .git/hooks; cp .git/hooks-$hook .git/hooks/$hook; chmod +x .git/hooks/$hook
        done
        for key in core.fsmonitor core.sshCommand filter.x.clean filter.x.smudge diff.external; do
            git config $key 'touch {tmp_path}/trace; cat'
        done
        echo '* filter=x' > .gitattributes
        echo more > more
        touch ~/in-its-home /tmp/in-its-tmp && echo written
    """
    out, err = run(sandbox, script, await environment_of(sandbox), JAIL)
    assert out.splitlines() == ["Adathe agent's", "written"], err
    out, err = run(sandbox, "ls ~/in-its-home /tmp/in-its-tmp", await environment_of(sandbox), JAIL)
    assert out == f"{home}/in-its-home\n", "its home is there at the next attempt, its /tmp is not"
    settled = await settle(sandbox, permits(), "Work")
    assert person.log(f"main..{sandbox.branch}") == ["Work", "the agent's"]
    assert person.changed(sandbox) == ["A .gitattributes", "A more", "A new", "M kept"]
    assert settled.left_out == ()
    git(person.top, "merge", "-q", str(sandbox.branch))
    git(person.top, "reset", "-q", "--hard", sandbox.base)
    await remove(person.project, sandbox, force=True)
    assert not (tmp_path / "trace").exists()
    assert not (tmp_path / "anywhere").exists()
    assert listing(tmp_path / "sandboxes") == []
    assert not Path("/etc/cuggino-was-here").exists()
    assert (home / "notes").read_text() == "the person's"
    assert sorted(path.name for path in home.iterdir()) == [".gitconfig", ".ssh", "notes"]
    after = person.belongings()
    for changed_by_the_merge in ("logs/HEAD", "index"):
        before.pop(changed_by_the_merge), after.pop(changed_by_the_merge)
    assert after == before


@pytest.mark.parametrize("words", [(), LAUNCHER], ids=["worktree", "clone"])
async def test_an_agents_git_works_and_finds_no_credentials(
    person: Person, words: tuple[str, ...], tmp_path: Path
) -> None:
    helper = f"#!/bin/sh\ntouch {tmp_path}/asked\necho username=ada\necho password=secret\n"
    program = write(tmp_path / "helper", helper)
    program.chmod(0o755)
    configuration = f"[user]\nname = Ada\nemail = a@b\n[credential]\nhelper = {program}\n"
    write(Path(os.environ["HOME"], ".gitconfig"), configuration)
    git(person.top, "config", "credential.helper", str(program))
    git(person.top, "config", "core.askPass", str(program))
    git(person.top, "config", "http.https://github.com/.extraHeader", "AUTHORIZATION: basic c2VjcmV0")
    sandbox = await provision(person.project, person.config(launcher=words))
    environment = await environment_of(sandbox)
    out, _ = run(sandbox, "printf 'protocol=https\\nhost=github.com\\n\\n' | git credential fill", environment)
    assert out == ""
    assert not (tmp_path / "asked").exists()
    header = ("config", "--get-urlmatch", "http.extraHeader", "https://github.com/o/r.git")
    if not words:  # a clone has no headers of the person's at all
        assert git(sandbox.folder, *header, environment=environment).strip() == ""
    _, err = run(sandbox, "git ls-remote ssh://git@127.0.0.1/nowhere", environment)
    assert "transport 'ssh' not allowed" in err
    commit = "echo x > new && git add new && git commit -qm new && git log -1 --format='%an <%ae> %s'"
    out, err = run(sandbox, commit, environment)
    assert out == "Ada <a@b> new\n", err
