"""docs/architecture.md is a true map of the code, and the code keeps the measures that the map promises."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict

import pytest

from tests.docs.test_documents import ROOT, TRACKED

PACKAGE = ROOT / "cuggino"
MODULES = sorted(PACKAGE.rglob("*.py"))
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")

MOST_LINES = 300
LONGER = {"process/keeper.py"}  # a program of its own, which imports nothing of ours


def _tree() -> list[tuple[int, list[str]]]:
    """The lines of the tree: the indentation of each, and the files and folders that it names."""
    block = re.search(r"```text\ncuggino/\n(.*?)```", PAGE, re.DOTALL)
    assert block
    lines = [re.match(r"( +)((?:\w+(?:/\w+)*(?:\.py|/)\s+)+)", line) for line in block[1].splitlines()]
    assert all(lines), "each line names at least one file or folder"
    return [(len(line[1]), line[2].split()) for line in lines if line]


def _floors() -> list[set[str]]:
    return [{name.removesuffix(".py").rstrip("/") for name in names} for indent, names in _tree() if indent == 2]


def test_the_tree_names_every_folder_and_every_module_of_the_top() -> None:
    here = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    named = [name for floor in _floors() for name in floor]
    assert sorted(named) == sorted(here - {"__init__"})


def test_each_file_in_the_tree_exists_in_its_folder() -> None:
    folder = PACKAGE
    for indent, names in _tree():
        for name in names:
            path = PACKAGE / name if indent == 2 or "/" in name[:-1] else folder / name
            assert path.is_dir() if name.endswith("/") else path.is_file(), path.relative_to(ROOT)
        if indent == 2:
            folder = PACKAGE / names[-1]


def test_the_lines_of_the_tree_are_the_layers_that_import_linter_checks() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["id"] == "floors")
    assert _floors() == [set(layer.split(" | ")) for layer in layers]


def test_every_name_in_code_font_is_in_the_code() -> None:
    sources = [path for path in TRACKED if path.suffix in {".py", ".toml", ".md"} or path.name in {"justfile", "run"}]
    code = "\n".join(path.read_text(encoding="utf-8") for path in sources if path.name != "architecture.md")
    files = {path.relative_to(ROOT).as_posix() for path in TRACKED}
    prose = re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)
    for name in re.findall(r"`([^`\n]+)`", prose):
        if name.endswith(".py"):
            assert any(f"/{file}".endswith(f"/{name}") for file in files), f"there is no file {name}"
        elif re.fullmatch(r"[A-Za-z_][\w.]*", name):
            for part in name.split("."):
                assert re.search(rf"\b{part}\b", code), f"nothing is named {name}"


def test_no_two_classes_have_one_name() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    if shared := [f"{name}: {', '.join(found)}" for name, found in sorted(places.items()) if len(found) > 1]:
        pytest.fail("\n".join(shared), pytrace=False)


def test_each_module_is_short_enough_to_be_read_in_one_go() -> None:
    sizes = {path.relative_to(PACKAGE).as_posix(): len(path.read_bytes().splitlines()) for path in MODULES}
    if long := [f"{name}: {size} lines" for name, size in sizes.items() if size > MOST_LINES and name not in LONGER]:
        pytest.fail("\n".join(long), pytrace=False)
