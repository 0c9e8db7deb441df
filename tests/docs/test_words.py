"""The project's English: some phrases are another language's, word for word, and are not used anywhere.

All text counts: documents, prompts, messages, help texts, docstrings, comments, test data, and names, which are read
word by word (`test_a_line_that_is_no_json` contains "is no json").
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.docs.test_documents import ROOT, TRACKED

NOT_READ = ("tests/recordings/", "requirements/", "LICENSE", "tests/docs/test_words.py")

# A blank in a pattern is any gap between two words: blanks, `_` in a name, a capital in a class's name, a line break
# with its comment sign, or the quotes between two adjacent string literals. What group 1 matches is good English.
NEVER = {
    "mend: fix": "mend(?:s|ed|ing|er|ers)?",
    "go on with: resume, continue": "(?:go|goes|going|gone|went) on with",
    "begins so: starts with": "beg[ia]ns? so",
    "is no: is not a": r"(there (?:is|are|was|were) no)|"
    r"(?:is|are|was|were) no (?!longer|more than|less than|\w+er than)\w+",
    "but for: except for": "but for",
    "so long: up to, as long as": "so (?:long|many|often)",
    # A person may tell an agent, and things can be told apart. `file.tell()` is Python's.
    "tell: report, print, say": r"((?<=\.)tell(?=\(\))|(?:tell|tells|telling|told) "
    r"(?:cuggino|(?:an|the) agent|(?:\w+ ){0,4}apart))|tells|telling|told|tell",
}

GAP = r"""(?:[\s_*`>#]|["']\s*\n\s*[rbf]*["']|(?-i:(?<=[a-z])(?=[A-Z])))+"""
START = "(?-i:(?<![A-Za-z])|(?<=[a-z])(?=[A-Z]))"


def _found(pattern: str, text: str) -> Iterator[tuple[int, str]]:
    """The numbers of the lines, and what is written there."""
    compiled = re.compile(f"{START}(?:{pattern.replace(' ', GAP)})(?-i:(?![a-z]))", re.IGNORECASE)
    for match in compiled.finditer(text):
        if not (match.lastindex and match[1]):
            yield text.count("\n", 0, match.start()) + 1, " ".join(match[0].split())


@pytest.mark.parametrize("rule", NEVER)
def test_no_text_of_the_project_says(rule: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {words}"
        for path in TRACKED
        if not path.relative_to(ROOT).as_posix().startswith(NOT_READ)
        for line, words in _found(NEVER[rule], path.read_text(encoding="utf-8", errors="replace"))
    ]
    if found:
        pytest.fail(f"{rule} ({len(found)})\n" + "\n".join(found), pytrace=False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It mends it,\nfor what Mended_Things and MendingHelper do.", [(1, "mends"), (2, "Mended"), (2, "Mending")]),
        ("Commands and amendments recommend dependencies.", []),
        ("going on\n    # with it", [(1, "going on # with")]),
        ('"whose id begins "\n    f"so"', [(1, 'begins " f"so')]),
        ("def test_a_link_is_no_file():", [(1, "is_no_file")]),
        ("There is no file. There are\n  no files. It is no longer there. x is not y. The answer is no.", []),
        ("they are no\nfiles", [(1, "are no files")]),
        ("There is no more than one, which is no more than needed.", []),
        ("nothing but for that", [(1, "but for")]),
        ("so  many, so_long, so oftentimes", [(1, "so many"), (1, "so_long")]),
        ("Tell cuggino; file.tell(); they can be told\napart, tell the agent from it, tell them both apart.", []),
        ("told = [it.tell]; nobody told; ToldBefore", [(1, "told"), (1, "tell"), (1, "told"), (1, "Told")]),
    ],
)
def test_a_phrase_is_found_across_lines_and_in_names(text: str, expected: list[tuple[int, str]]) -> None:
    assert sorted(hit for rule in NEVER.values() for hit in _found(rule, text)) == sorted(expected)
