"""The documents are true: their commands exist, their configurations and events decode, their code compiles, their
links lead somewhere, and no file of the project names the machine that it was written on.

The language of a block decides how it is tested: `sh` and `console` are commands (after `$ ` in the latter), `json` is
a configuration or lines of the log, `python` must compile, and `python run` is also run, in an empty folder.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt

from cuggino.config import decode
from cuggino.events import decode_log_line

ROOT = Path(__file__).parent.parent.parent

OURS = re.compile(
    r"https://(?:github[.]com/cuggino/cuggino/(?:blob|tree)|raw[.]githubusercontent[.]com/cuggino/cuggino)/main/"
)
"""The README is also read outside of the repository, in the package. So its links into the project are absolute."""

REGISTRIES = r"pypi[.]org|pythonhosted[.]org|npmjs[.](?:org|com)|yarnpkg[.]com|deb[.]debian[.]org"
HOMES = r"/(?:home|Users)/(?!user/)[A-Za-z]"  # the recordings call their author `user`


class Block(NamedTuple):
    place: str
    language: str
    run: bool
    text: str


def _tracked() -> list[Path]:
    """Return the files of the project: those that git tracks, and new ones that it does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    )
    paths = (ROOT / name.decode() for name in listed.stdout.split(b"\0") if name)
    return sorted(path for path in paths if path.is_file() and not path.is_symlink())


TRACKED = _tracked()
MARKDOWN = [path for path in TRACKED if path.suffix == ".md" and "tests" not in path.relative_to(ROOT).parts]
GUIDES = [path for path in MARKDOWN if path.parent == ROOT or path.is_relative_to(ROOT / "docs")]


def _blocks(*languages: str) -> Iterator[Block]:
    for path in GUIDES:
        for token in MarkdownIt().parse(path.read_text(encoding="utf-8")):
            language, *words = token.info.split() or [""]
            if token.type == "fence" and language in languages and token.map:
                place = f"{path.relative_to(ROOT)}:{token.map[0] + 1}"
                yield Block(place, language, "run" in words, token.content)


def _commands() -> Iterator[tuple[str, list[str]]]:
    """Yield every command in the documents: its place and its words."""
    for block in _blocks("sh", "console"):
        lines = block.text.replace("\\\n", " ").splitlines()
        if block.language == "console":
            lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        for line in lines:
            for command in re.split(r"&&|\|\||[;|]", line):
                if words := shlex.split(command, comments=True):
                    yield block.place, words


def _id(value: object) -> str:
    return value.place if isinstance(value, Block) else " ".join(value) if isinstance(value, list) else str(value)


COMMANDS = list(_commands())
CUGGINO = [(place, words[1:]) for place, words in COMMANDS if words[0] == "cuggino"]
JUST = [(place, words[1:]) for place, words in COMMANDS if words[0] == "just"] + [
    (place, words[2:]) for place, words in COMMANDS if words[:2] == ["sh", ".ci/just"]
]


@cache
def _output(*argv: str) -> str:
    done = subprocess.run(
        argv,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, f"{shlex.join(argv)} ended with {done.returncode}:\n{done.stdout}"
    return done.stdout


def test_the_documents_show_commands_of_both_kinds() -> None:
    """Otherwise the tests below would pass without testing anything."""
    assert CUGGINO
    assert JUST


@pytest.mark.parametrize(("place", "words"), CUGGINO, ids=_id)
def test_a_documented_command_exists_with_its_options(place: str, words: list[str]) -> None:
    flags = [word.partition("=")[0] for word in words if word.startswith("-")]
    subcommand = words[:1] if words and not words[0].startswith("-") else []
    shown = _output(sys.executable, "-m", "cuggino", *subcommand, "--help")
    assert not subcommand or f"cuggino {subcommand[0]}" in shown, f"{place}: no command {subcommand}"
    for flag in flags:
        assert re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", shown), f"{place}: no option {flag}"


@pytest.mark.parametrize(("place", "words"), JUST, ids=_id)
def test_a_documented_recipe_exists(place: str, words: list[str]) -> None:
    recipes = _output(str(Path(sys.executable).with_name("just")), "--summary").split()
    recipe = [word for word in words if not word.startswith("-")][:1]
    assert set(recipe) <= set(recipes), f"{place}: the justfile has {recipes}"


@pytest.mark.parametrize("block", list(_blocks("json")), ids=_id)
def test_a_json_block_is_a_configuration_or_lines_of_the_log(block: Block) -> None:
    if block.text.startswith('{"at"'):
        for line in block.text.splitlines():
            decode_log_line(line)
    else:
        decode(block.text.encode(), block.place)


def test_a_python_block_compiles_and_runs_if_marked(tmp_path: Path) -> None:
    for block in _blocks("python"):
        compile(block.text, block.place, "exec", dont_inherit=True)
        if block.run:
            subprocess.run([sys.executable, "-W", "error", "-c", block.text], cwd=tmp_path, check=True, timeout=60)


def _anchors(path: Path) -> set[str]:
    """Return the anchors of a document's headings, as GitHub makes them."""
    tokens = MarkdownIt().parse(path.read_text(encoding="utf-8"))
    titles = [tokens[number + 1].content for number, token in enumerate(tokens) if token.type == "heading_open"]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("path", MARKDOWN, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_into_the_project_leads_to_a_file_of_it(path: Path) -> None:
    tokens = MarkdownIt().enable("table").parse(path.read_text(encoding="utf-8"))
    inner = [child for token in tokens for child in token.children or ()]
    targets = [str(child.attrs.get("href") or child.attrs.get("src")) for child in inner if child.attrs]
    for target in targets:
        inside = OURS.match(target)
        if re.match(r"[a-z]+:", target) and not inside:
            continue
        name, _, anchor = target[inside.end() if inside else 0 :].partition("#")
        found = ((ROOT if inside else path.parent) / name).resolve() if name else path
        assert any(file.is_relative_to(found) for file in TRACKED), f"{target}: not a file of the project"
        assert not anchor or anchor in _anchors(found), f"{target}: no such heading"


def test_no_file_names_a_registry_or_the_machine_that_it_was_written_on() -> None:
    here = "|".join(re.escape(place) for place in (str(ROOT), f"{Path.home()}/", sys.prefix))
    forbidden = re.compile(f"(?:{REGISTRIES}|{HOMES}|{here}).{{0,40}}")
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for path in TRACKED
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        for match in forbidden.finditer(line)
    ]
    assert found == []


def test_the_recording_of_the_demo_moves_without_scripts_fonts_and_links() -> None:
    text = (ROOT / "docs" / "demo.svg").read_text(encoding="utf-8")
    names = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(text).iter()}
    assert names == {"svg", "title", "style", "rect", "circle", "g", "text"}
    assert "@keyframes" in text
    assert re.findall(r"@font-face|@import|url\(|href|https?:(?!//www[.]w3[.]org/2000/svg)", text) == []


def test_no_lock_file_is_tracked() -> None:
    """They contain addresses; requirements/*.txt pins the versions."""
    locks = re.compile(r"uv[.]lock|pylock.*[.]toml|poetry[.]lock|Pipfile[.]lock|package-lock[.]json|yarn[.]lock")
    assert [path for path in TRACKED if locks.fullmatch(path.name)] == []


@pytest.mark.parametrize("name", ["run.txt", "dev.txt"])
def test_requirements_contain_only_pins_with_hashes(name: str) -> None:
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8").replace("\\\n", "")
    pins = text.splitlines()
    assert pins
    for pin in pins:
        assert re.fullmatch(r"[a-z0-9-]+==[\w.+]+ *(;[^\\#]+?)?( +--hash=sha256:[0-9a-f]{64})+", pin), pin[:120]


def test_the_versions_that_run_are_the_versions_that_are_tested() -> None:
    def versions(name: str) -> set[str]:
        return set(re.findall(r"^[a-z0-9-]+==[\w.+]+", (ROOT / "requirements" / name).read_text(), re.MULTILINE))

    assert versions("run.txt") <= versions("dev.txt")
