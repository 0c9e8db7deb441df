"""Secrets: how they are read, and that redacted text, bytes and events do not contain them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuggino.errors import SandboxError
from cuggino.events import AgentMessage, ToolCall, UsageReport
from cuggino.sandbox.secrets import MASK, Redaction, read_secrets

VALUE = 'hunter2 "quoted"/ü+line\nbreak'


# ---- values -----------------------------------------------------------------------------------


def test_only_requested_secrets_that_are_allowed_are_read(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from a file\n")
    environment = {"TOKEN": "from the environment", "OTHER": "not requested", "THIRD": "not allowed"}
    allowed = ("env:TOKEN", "env:OTHER", "file:key")
    values = read_secrets(["file:key", "env:TOKEN", "env:THIRD", "env:TOKEN"], allowed, environment, tmp_path)
    assert values == {"file:key": "from a file", "env:TOKEN": "from the environment"}


@pytest.mark.parametrize(
    "reference", ["env:MISSING", "env:EMPTY", "env:SHORT", "file:missing", "file:binary", "file:."]
)
def test_an_error_names_the_secret_and_never_its_value(tmp_path: Path, reference: str) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe secret")
    with pytest.raises(SandboxError) as caught:
        read_secrets([reference], [reference], {"EMPTY": "", "SHORT": "xyz"}, tmp_path)
    assert reference in str(caught.value)
    assert "xyz" not in str(caught.value)
    assert caught.value.__cause__ is None


# ---- redaction --------------------------------------------------------------------------------


def test_a_secret_in_a_text_is_masked() -> None:
    assert Redaction(["swordfish"]).text("the swordfish, and a swordfish") == f"the {MASK}, and a {MASK}"


def test_a_text_without_secrets_is_returned_as_it_is() -> None:
    text = "nothing to hide"
    assert Redaction(["swordfish"]).text(text) is text
    assert Redaction([]).text(text) is text
    assert Redaction([""]).text(text) is text


@pytest.mark.parametrize(
    ("values", "text", "expected"),
    [
        (["abcd", "abcdefgh"], "abcdefgh abcd", f"{MASK} {MASK}"),
        (["abcdef", "defghi"], "-abcdefghi-", f"-{MASK}-"),
        (["defghi", "abcdef"], "-abcdefghi-", f"-{MASK}-"),
        (["aaaa"], "aaaaaaa", MASK),
        (["abcd", "efgh"], "abcdefgh", MASK),
        (["abcdefgh", "cdef"], "abcdefgh", MASK),
    ],
)
def test_overlapping_secrets_are_masked_together(values: list[str], text: str, expected: str) -> None:
    assert Redaction(values).text(text) == expected
    assert Redaction(values).bytes(text.encode()) == expected.encode()


@given(st.lists(st.text("ab", min_size=1, max_size=5), min_size=1, max_size=4), st.text("abc", max_size=40))
def test_exactly_the_characters_of_secrets_are_removed(values: list[str], text: str) -> None:
    hidden = {
        position
        for value in values
        for begin in range(len(text))
        if text.startswith(value, begin)
        for position in range(begin, begin + len(value))
    }
    kept = "".join(char for position, char in enumerate(text) if position not in hidden)
    redacted = Redaction(values).text(text)
    assert redacted.replace(MASK, "") == kept
    assert not any(value in piece for value in values for piece in redacted.split(MASK))


@pytest.mark.parametrize("shift", range(4))
@pytest.mark.parametrize("behind", ["", "x", "xy"])
def test_encoded_secrets_are_masked(shift: int, behind: str) -> None:
    redaction = Redaction([VALUE])
    around = "u" * shift + VALUE + behind
    for text in (
        json.dumps(around),
        json.dumps(around, ensure_ascii=False),
        quote(around),
        quote(around, safe=""),
        base64.b64encode(around.encode()).decode(),
        base64.urlsafe_b64encode(around.encode()).decode(),
    ):
        assert MASK in redaction.text(text), text
    assert redaction.finds(around.encode("utf-16"))


def test_single_lines_of_a_secret_are_masked() -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBg\n-----END KEY-----\n"
    assert Redaction([key]).text("   3\tMIIEvQIBADANBg") == f"   3\t{MASK}"


def test_an_event_is_redacted_at_any_depth() -> None:
    redaction = Redaction(["swordfish"])
    call = ToolCall(
        id="1", name="Bash", input={"command": "echo swordfish", "swordfish": ["a", {"b": "swordfish"}], "n": 3}
    )
    assert redaction.event(call) == ToolCall(
        id="1", name="Bash", input={"command": f"echo {MASK}", MASK: ["a", {"b": MASK}], "n": 3}
    )
    said = AgentMessage(text="nothing")
    assert redaction.event(said) is said
    used = UsageReport(input_tokens=3)
    assert redaction.event(used) is used
