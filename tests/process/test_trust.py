"""A tree that others wrote: no command follows a link in it, believes its state, or works in what others own."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cuggino.errors import StorageError
from cuggino.project import Project
from tests.process.house import House

FOLDERS = ("backlog", "spec-issues", "tbd", "archive", "wip", "logs", "spawns")
FILES = ("lock", "state.json", ".gitignore")
COMMANDS = {
    "watch": ("watch", "--until-idle"),
    "run": ("run", "--focus", "x"),
    "resume": ("run", "--resume"),
    "spawn": ("spawn", "x", "--integrate", "branch"),
    "spawn list": ("spawn", "list"),
    "spawn clean": ("spawn", "clean", "--force"),
    "status": ("status",),
    "log": ("log",),
    "backlog list": ("backlog", "list"),
    "backlog add": ("backlog", "add", "work"),
    "issues": ("issues", "list"),
    "resolve": ("tbd", "resolve", "010"),
    "setup": ("setup", "--set", "commit=true"),
    "doctor": ("doctor",),
}


def seen(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every name below a folder, with its mode and its content or where it leads."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = b""
        if stat.S_ISREG(status.st_mode):
            content = path.read_bytes()
        elif stat.S_ISLNK(status.st_mode):
            content = os.fsencode(path.readlink())
        found[str(path.relative_to(folder))] = (status.st_mode, content)
    return found


@pytest.fixture
def house(tmp_path: Path) -> House:
    """A project beside a home whose folders have each a name that cuggino uses, and files that a clean-up deletes."""
    house = House(tmp_path)
    (house.home / ".bashrc").write_text("mine\n")
    (house.home / ".ssh").mkdir()
    (house.home / ".ssh" / "id").write_text("key\n")
    for name in FOLDERS:
        (house.home / name).mkdir()
        (house.home / name / "010-a.md").write_text("mine\n")
        (house.home / name / ".old.tmp").write_text("mine\n")
    for name in FILES:
        (house.home / name).write_text("{}\n")
    return house


def commit_link(house: House, path: str, target: Path | str) -> None:
    link = house.root / path
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target)
    house.git("add", "--force", path)
    house.git("commit", "-qm", "a link")


async def test_a_checkout_with_a_link_for_wip_deletes_nothing(house: House) -> None:
    commit_link(house, ".cuggino/wip", os.path.relpath(house.home, house.root / ".cuggino"))
    before = seen(house.home)
    done = await house.run("watch", "--until-idle")
    assert seen(house.home) == before
    assert done.code != 0
    assert ".cuggino/wip is a symbolic link" in done.err


def _link(path: Path, home: Path) -> None:
    path.symlink_to(home if path.name not in (*FOLDERS, *FILES) else home / path.name)


def _dangling(path: Path, home: Path) -> None:
    path.symlink_to(home / "new")


def _pipe(path: Path, _home: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path, _home: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # a socket's path is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def _other(path: Path, _home: Path) -> None:
    path.mkdir() if path.name in FILES else path.write_text("")


OBSTACLES = {"link": _link, "dangling": _dangling, "pipe": _pipe, "socket": _socket, "other": _other}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("component", ["wip", "state.json"])
async def test_no_command_goes_through_a_link(house: House, command: str, component: str) -> None:
    place = house.root / ".cuggino" / component
    place.parent.mkdir()
    _link(place, house.home)
    before = seen(house.home), seen(house.root / ".cuggino")
    done = await house.run(*COMMANDS[command])
    assert (seen(house.home), seen(house.root / ".cuggino")) == before
    assert (done.code, f".cuggino/{component} is a symbolic link" in done.err) == (1, True), done.err


@pytest.mark.parametrize("component", [*FOLDERS, *FILES])
async def test_a_watch_goes_through_no_link(house: House, component: str) -> None:
    place = house.root / ".cuggino" / component
    place.parent.mkdir()
    _link(place, house.home)
    before = seen(house.home), seen(house.root / ".cuggino")
    done = await house.run("watch", "--until-idle")
    assert (seen(house.home), seen(house.root / ".cuggino")) == before
    assert (done.code, f"{place} is a symbolic link" in done.err, "move it away" in done.err) == (1, True, True)


@pytest.mark.parametrize("obstacle", OBSTACLES.values(), ids=OBSTACLES)
@pytest.mark.parametrize("component", [*FOLDERS, *FILES])
def test_whatever_is_in_the_place_of_a_folder_or_file_is_named(
    house: House, component: str, obstacle: Callable[[Path, Path], None]
) -> None:
    place = house.root / ".cuggino" / component
    place.parent.mkdir()
    obstacle(place, house.home)
    before = seen(house.home), seen(house.root / ".cuggino")
    with pytest.raises(StorageError, match=f"{place} is a .*, but cuggino needs"):
        Project(house.root).prepare()
    assert (seen(house.home), seen(house.root / ".cuggino")) == before


@pytest.mark.parametrize("command", ["backlog list", "status", "watch", "doctor"])
async def test_a_state_folder_that_git_brought_as_a_link_is_refused(house: House, command: str) -> None:
    commit_link(house, ".cuggino", os.path.relpath(house.home, house.root))
    before = seen(house.home)
    done = await house.run(*COMMANDS[command])
    assert seen(house.home) == before
    assert (done.code, "git rm -r --cached .cuggino" in done.err) == (2, True), done.err


async def test_a_state_folder_that_the_person_moved_elsewhere_works(house: House, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (house.root / ".cuggino").symlink_to(tmp_path / "elsewhere")
    (house.root / ".git" / "info" / "exclude").write_text("/.cuggino\n")
    done = await house.run("backlog", "add", "work")
    assert done.code == 0, done.err
    done = await house.run("watch", "--until-idle")
    assert done.code == 0, done.err
    assert list((tmp_path / "elsewhere" / "archive").iterdir())


async def test_a_clean_up_removes_links_and_deep_trees_and_nothing_behind_them(house: House) -> None:
    wip = house.root / ".cuggino" / "wip"
    (wip / ".tree").mkdir(parents=True)
    (wip / ".link").symlink_to(house.home)
    (wip / ".tree" / "link").symlink_to(house.home)
    os.mkfifo(wip / ".pipe")
    descriptor = os.open(wip / ".tree", os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("deep", dir_fd=descriptor)
        inner = os.open("deep", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)
    before = seen(house.home)
    done = await house.run("watch", "--until-idle")
    assert (done.code, list(wip.iterdir())) == (0, []), done.err
    assert seen(house.home) == before


# ---- what git tracks


def track(house: House, *names: str) -> None:
    for name in names:
        path = house.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}\n")
    house.git("add", "--force", ".")
    house.git("commit", "-qm", "state")


@pytest.mark.parametrize("command", ["watch", "run", "spawn", "spawn clean"])
@pytest.mark.parametrize("name", ["wip/s.json", "spawns/x/sandbox.json"])
async def test_tracked_state_is_refused_before_anything_starts(house: House, command: str, name: str) -> None:
    track(house, f".cuggino/{name}")
    before = seen(house.root)
    done = await house.run(*COMMANDS[command])
    assert seen(house.root) == before
    assert done.code == 2
    assert f"  .cuggino/{name}\n" in done.err
    assert f"git rm -r --cached .cuggino/{name.split('/')[0]}, then" in done.err


async def test_up_to_five_files_are_named(house: House) -> None:
    track(house, *(f".cuggino/wip/{number}.json" for number in range(7)))
    done = await house.run("run", "--focus", "x")
    assert done.err.count("  .cuggino/wip/") == 5
    assert "  and 2 more\n" in done.err


async def test_what_people_share_may_be_tracked(house: House) -> None:
    track(house, ".cuggino/.gitignore", ".cuggino/script.json", ".cuggino/prompts/planner.md", ".cuggino/tbd/1.md")
    done = await house.run("run", "--focus", "x")
    assert done.code == 0, done.err


def test_a_project_in_a_folder_of_a_repository_is_looked_at_alone(house: House) -> None:
    inner = house.root / "packages" / "inner"
    track(house, ".cuggino/wip/s.json", "packages/inner/.cuggino.json")
    shutil.copy(house.root / ".cuggino.json", inner)
    assert (
        subprocess.run(
            [sys.executable, "-m", "cuggino", "run", "--focus", "x"],
            cwd=inner,
            env=house.environment,
            capture_output=True,
        ).returncode
        == 0
    )
    track(house, "packages/inner/.cuggino/wip/s.json")
    done = subprocess.run(
        [sys.executable, "-m", "cuggino", "run", "--focus", "x"], cwd=inner, env=house.environment, capture_output=True
    )
    assert (done.returncode, b"  .cuggino/wip/s.json\n" in done.stderr) == (2, True)


# ---- whose it is


@pytest.mark.parametrize("name", [".", ".cuggino", ".cuggino.json"])
@pytest.mark.parametrize(("mode", "who"), [(0o020, "its group"), (0o002, "others")])
async def test_what_others_can_write_is_refused(house: House, name: str, mode: int, who: str) -> None:
    (house.root / ".cuggino").mkdir()
    place = house.root / name
    place.chmod(place.stat().st_mode | mode)
    os.chown(place, -1, os.getgroups()[-1] if os.geteuid() else 12345)
    before = seen(house.root)
    done = await house.run("run", "--focus", "x")
    assert seen(house.root) == before
    assert (done.code, f"can be written by {who}" in done.err, "chmod go-w" in done.err) == (2, True, True)
    place.chmod(place.stat().st_mode & ~0o022)
    assert (await house.run("run", "--focus", "x")).code == 0


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv")
@pytest.mark.parametrize("name", [".", ".cuggino", ".cuggino.json"])
async def test_what_another_user_owns_is_refused(house: House, name: str) -> None:
    (house.root / ".cuggino").mkdir()
    os.chown(house.root / name, 12345, 12345)
    done = await house.run("status")
    assert (done.code, "belongs to another user (12345)" in done.err, "chown -R root" in done.err) == (2, True, True)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv")
def test_a_user_works_in_their_own_project_and_in_roots_but_not_in_that_of_a_third() -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="cuggino-two-users-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        codes = {}
        errors = ""
        for owner in (0, 12345, 23456):
            place = root / str(owner)
            place.mkdir()
            (place / ".cuggino.json").write_text("{}")
            for path in (place, place / ".cuggino.json"):
                os.chown(path, owner, owner)
            user = ["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups"]
            environment = {"PATH": os.environ["PATH"], "HOME": str(root), "PYTHONPATH": str(Path(__file__).parents[2])}
            done = subprocess.run(
                [*user, sys.executable, "-m", "cuggino", "backlog", "list"],
                cwd=place,
                env=environment,
                capture_output=True,
                text=True,
            )
            codes[owner] = done.returncode
            errors += done.stderr
        assert codes == {0: 0, 12345: 0, 23456: 2}, errors
