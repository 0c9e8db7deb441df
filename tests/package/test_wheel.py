"""The wheel, built and run without a network: everything that the program needs is in it, and so is its metadata."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

from cuggino import __version__
from tests.docs.test_documents import ROOT, TRACKED

REPOSITORY = "https://github.com/cuggino/cuggino"
IN_REPOSITORY = re.compile(rf"{REPOSITORY}/blob/main/(.+)")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=100)
    [path] = folder.iterdir()
    return zipfile.ZipFile(path)


def read(wheel: zipfile.ZipFile, name: str) -> str:
    return wheel.read(f"cuggino-{__version__}.dist-info/{name}").decode()


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    return Parser().parsestr(read(wheel, "METADATA"))


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert packed == {str(path.relative_to(ROOT)) for path in TRACKED if path.is_relative_to(ROOT / "cuggino")}
    assert {"cuggino/py.typed", "cuggino/agents/prompts/planner.md", "cuggino/demo/files/script.json"} <= packed
    assert read(wheel, "licenses/LICENSE") == (ROOT / "LICENSE").read_text(encoding="utf-8")


def test_the_wheel_installs_the_command(wheel: zipfile.ZipFile) -> None:
    assert read(wheel, "entry_points.txt").split("\n")[:2] == ["[console_scripts]", "cuggino = cuggino.__main__:main"]


def test_the_metadata_leads_to_the_project_and_its_documents(metadata: Message) -> None:
    urls = dict(str(url).split(", ", 1) for url in metadata.get_all("Project-URL", []))
    assert sorted(urls) == ["Changelog", "Documentation", "Homepage", "Issues"]
    assert all(url.startswith(REPOSITORY) for url in urls.values())
    paths = [match[1] for url in urls.values() if (match := IN_REPOSITORY.fullmatch(url))]
    assert paths == ["docs/index.md", "CHANGELOG.md"]
    assert all(ROOT / path in TRACKED for path in paths)


def test_the_readme_works_where_there_is_no_repository(metadata: Message) -> None:
    text = str(metadata.get_payload())
    assert metadata["Description-Content-Type"] == "text/markdown"
    targets = re.findall(r"\]\(([^)]*)\)", text)
    assert len(targets) > 10
    assert [target for target in targets if not target.startswith(("https://", "#"))] == []
    assert "docs/demo.svg" in text


def test_the_program_in_the_wheel_runs_the_demo(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """In an environment that has the dependencies of this one, but not its cuggino."""
    venv.create(tmp_path / "env", symlinks=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(tmp_path / "env")}))
    wheel.extractall(packages)
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = tmp_path / "env" / "bin" / "python"

    def run(*arguments: str) -> str:
        environment = {"HOME": str(tmp_path), "TMPDIR": str(tmp_path), "PATH": "/usr/local/bin:/usr/bin:/bin"}
        command = [str(python), *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert Path(run("-c", "import cuggino; print(cuggino.__file__)").strip()) == packages / "cuggino" / "__init__.py"
    assert run("-m", "cuggino", "--version") == f"{__version__}\n"
    assert "Approved in iteration 2" in run("-m", "cuggino", "demo")
