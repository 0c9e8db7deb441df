from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cuggino.events import AgentMessage, Done, LlmMarkerEvent, Note, PlanComplete, Progress, SpecIssue, ToBeDiscussed
from cuggino.markers import MarkerParser, find_markers, tag_name
from cuggino.roles import Role

MARKERS = Role.IMPLEMENTER.markers
Found = AgentMessage | LlmMarkerEvent


def find(text: str) -> list[Found]:
    return find_markers(text, MARKERS)


def text(words: str) -> AgentMessage:
    return AgentMessage(text=words)


def note(content: str) -> Note:
    return Note(content=content)


def done(content: str) -> Done:
    return Done(content=content)


def only_text(message: str) -> bool:
    return find(message) == [text(message.strip())]


# ---- tags -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("marker", "name"),
    [(Note, "NOTE"), (SpecIssue, "SPEC_ISSUE"), (PlanComplete, "PLAN_COMPLETE"), (ToBeDiscussed, "TO_BE_DISCUSSED")],
)
def test_a_tag_is_named_after_its_event(marker: type[LlmMarkerEvent], name: str) -> None:
    assert tag_name(marker) == name


@pytest.mark.parametrize("role", Role)
def test_every_marker_of_a_role_is_found_and_no_other(role: Role) -> None:
    for other in Role:
        for marker in other.markers:
            name = tag_name(marker)
            message = f"<{name}>x</{name}>"
            expected = [marker(content="x")] if marker in role.markers else [text(message)]
            assert find_markers(message, role.markers) == expected


def test_markers_and_the_text_around_them_stay_in_order() -> None:
    assert find("before <NOTE>one</NOTE> between <PROGRESS>two</PROGRESS><NOTE>three</NOTE>\nafter") == [
        text("before"),
        note("one"),
        text("between"),
        Progress(content="two"),
        note("three"),
        text("after"),
    ]


def test_content_is_trimmed_and_may_have_many_lines() -> None:
    assert find("<DONE>\n\n  first\n\n    second \n\n</DONE>") == [done("first\n\n    second")]


def test_a_marker_may_be_empty() -> None:
    assert find("<DONE></DONE><DONE> \n </DONE>") == [done(""), done("")]


def test_text_is_stripped_at_both_ends_only() -> None:
    assert find("\n  a\n\n   b\n <NOTE>n</NOTE>\n\n c \n") == [text("a\n\n   b"), note("n"), text("c")]


@pytest.mark.parametrize("message", ["", " ", "\n\r\n\t", "\x0c"])
def test_a_message_of_white_space_gives_no_event(message: str) -> None:
    assert find(message) == []


def test_white_space_between_markers_gives_no_event() -> None:
    assert find(" <NOTE>a</NOTE> \n\n <NOTE>b</NOTE>\n") == [note("a"), note("b")]


@pytest.mark.parametrize(
    "message",
    [
        "<note>x</note>",
        "<Note>x</Note>",
        "< NOTE>x</NOTE>",
        "<NOTE >x</NOTE>",
        '<NOTE level="1">x</NOTE>',
        "<NOTE/>x</NOTE>",
        "<NOTE>x< /NOTE>",
        "<NOTE>x</NOTE >",
        "<NOTES>x</NOTES>",
        "<NOTE>x</DONE>",
        "NOTE>x</NOTE>",
        "<NO\nTE>x</NOTE>",
        "&lt;NOTE&gt;x&lt;/NOTE&gt;",
    ],
)
def test_what_is_not_exactly_a_tag_is_text(message: str) -> None:
    assert only_text(message)


def test_brackets_around_a_tag_do_not_matter() -> None:
    assert find("<<NOTE>>x<</NOTE>>") == [text("<"), note(">x<"), text(">")]
    assert find("Array<DONE>x</DONE>") == [text("Array"), done("x")]


def test_a_tag_that_is_never_closed_is_text_and_hides_nothing() -> None:
    assert find("I use <NOTE> when I must. <DONE>all</DONE>") == [text("I use <NOTE> when I must."), done("all")]


def test_only_the_last_opening_tag_may_be_unclosed() -> None:
    assert find("<NOTE>a</NOTE> then <NOTE> and <DONE>d</DONE>") == [note("a"), text("then <NOTE> and"), done("d")]


def test_a_closing_tag_alone_is_text() -> None:
    assert find("</NOTE> a </DONE><NOTE>n</NOTE></NOTE>") == [text("</NOTE> a </DONE>"), note("n"), text("</NOTE>")]


def test_a_tag_inside_content_is_content() -> None:
    assert find("<NOTE>a <DONE>b</DONE> c</NOTE>") == [note("a <DONE>b</DONE> c")]
    assert find("<NOTE>a <DONE> b</NOTE> c") == [note("a <DONE> b"), text("c")]


def test_the_first_closing_tag_closes() -> None:
    assert find("<NOTE>a <NOTE>b</NOTE> c</NOTE>") == [note("a <NOTE>b"), text("c</NOTE>")]


def test_tags_that_overlap_belong_to_the_one_that_opens_first() -> None:
    assert find("<NOTE>a <DONE> b</NOTE> c </DONE>") == [note("a <DONE> b"), text("c </DONE>")]


# ---- inline code ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        "say `<DONE>x</DONE>` at the end",
        "say `<DONE>` then `</DONE>`",
        "``<DONE>`x`</DONE>``",
        "` `` <DONE>x</DONE>`",
        "`over\ntwo lines <DONE>x</DONE>`",
        "> `in a\n> quotation <DONE>x</DONE>`",
        "`closed here` and `<DONE>x</DONE>`",
        "```<DONE>x</DONE>``` on one line",
    ],
)
def test_a_marker_in_a_code_span_is_a_quotation(message: str) -> None:
    assert only_text(message)


def test_code_spans_around_a_marker_do_not_hide_it() -> None:
    assert find("`a` <DONE>x</DONE> `b`") == [text("`a`"), done("x"), text("`b`")]


@pytest.mark.parametrize("before", ["a ` b", "a `` b ` c", "a ``` b", "a " + "`" * 50])
def test_a_backtick_that_nothing_closes_hides_nothing(before: str) -> None:
    message = f"{before} <DONE>x</DONE>\n\nin ` another paragraph `` and ``` another"
    assert find(message)[:2] == [text(before), done("x")]


@pytest.mark.parametrize(
    "end",
    [
        "\n",
        "  \t\n",
        ">\n",
        "> > \n",
        "\r\n",
        "-",
        "  *",
        "> +",
        "1.",
        "123456789)",
        "#",
        "   ######",
        "```\n```\n",
        "~~~\n~~~\n",
    ],
)
def test_a_code_span_stays_in_its_paragraph(end: str) -> None:
    assert find(f"a ` b\n{end} <DONE>x</DONE> ` c")[1:] == [done("x"), text("` c")]
    assert find(f"a <NOTE>n</NOTE> ` b\n{end} <DONE>x</DONE> ` c")[3:] == [done("x"), text("` c")]
    assert find(f"a ` <DONE>x</DONE>\n{end} ` c")[1:2] == [done("x")]


@pytest.mark.parametrize("more", ["a", "-", "-a", "*a*", "1", "1.a", "1234567890. ", "#a", "####### ", "``", "~~"])
def test_a_code_span_continues_over_a_line_that_does_not_end_its_paragraph(more: str) -> None:
    assert only_text(f"a ` b\n{more}<DONE>x</DONE> ` c")


def test_each_paragraph_has_its_own_spans() -> None:
    assert find("a `b` <NOTE>n</NOTE>\n\n`<DONE>x</DONE>`\n\n` <DONE>y</DONE>") == [
        text("a `b`"),
        note("n"),
        text("`<DONE>x</DONE>`\n\n`"),
        done("y"),
    ]


def test_a_stray_backtick_in_a_list_item_does_not_expose_what_the_next_item_quotes() -> None:
    assert only_text("- a ` b\n- end with `<DONE>` and `</DONE>`")


def test_a_span_that_begins_before_a_marker_and_ends_in_it_hides_it() -> None:
    assert only_text("`a <DONE>b` c</DONE>")


def test_a_marker_that_begins_before_a_span_holds_it() -> None:
    assert find("<DONE>a `b</DONE> c") == [done("a `b"), text("c")]
    assert find("<DONE>a `b` c</DONE> `d`") == [done("a `b` c"), text("`d`")]


def test_what_is_left_of_a_run_that_closes_nothing_may_be_closed_after_the_marker() -> None:
    assert find("<NOTE>a</NOTE> `<DONE>x</DONE>` <DONE>y</DONE>") == [
        note("a"),
        text("`<DONE>x</DONE>`"),
        done("y"),
    ]


# ---- fences -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("```", "```"),
        ("```text", "```"),
        ("````", "`````"),
        ("~~~", "~~~"),
        ("~~~ a `tick`", "~~~~  "),
        ("   ```", "```"),
        ("        ```", "      ```"),
        ("> ```", "> ```"),
        ("- ```", "  ```"),
        ("  10. ```", "      ```"),
        ("> - ~~~", ">   ~~~"),
        ("\t```", "\t```\t"),
    ],
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_marker_in_a_fenced_block_is_a_quotation(opening: str, closing: str, line_end: str) -> None:
    block = line_end.join(["so:", opening, "<DONE>x</DONE>", "", "<DONE>y</DONE>", closing])
    assert only_text(block)
    assert find(block + line_end + "<DONE>z</DONE>") == [text(block.rstrip()), done("z")]


@pytest.mark.parametrize("inner", ["``", "~~~", "``` text", "x ```", "- ```", "`` `"])
def test_what_does_not_close_a_fence_stays_in_it(inner: str) -> None:
    assert only_text(f"```\n{inner}\n<DONE>x</DONE>\n```")


def test_a_longer_fence_holds_shorter_ones() -> None:
    assert only_text("````\n```\na\n```\n<DONE>x</DONE>\n````")


@pytest.mark.parametrize("fence", ["```", "~~~~", "- ```py"])
def test_an_unclosed_fence_runs_to_the_end_of_the_message(fence: str) -> None:
    message = f"a\n{fence}\n<DONE>x</DONE>\n\nb <NOTE>y</NOTE>"
    assert only_text(message)


def test_an_unclosed_fence_does_not_reach_into_the_next_message() -> None:
    parser = MarkerParser(MARKERS)
    parser.feed("```\n<DONE>x</DONE> <NOTE>")
    assert parser.end() == [text("```\n<DONE>x</DONE> <NOTE>")]
    parser.feed("</NOTE><DONE>y</DONE>")
    assert parser.end() == [text("</NOTE>"), done("y")]
    assert parser.end() == []


@pytest.mark.parametrize("line", ["a ```", "``", "~~", "```a`b", "-```", "1.```"])
def test_a_line_that_is_not_a_fence_opens_no_block(line: str) -> None:
    assert find(f"{line}\n\n<DONE>x</DONE>") == [text(line), done("x")]


def test_a_tag_on_the_line_of_a_fence_is_in_the_block() -> None:
    assert only_text("```<DONE>x</DONE>\na\n```")
    assert only_text("~~~ <DONE>x</DONE>")


def test_a_fence_right_after_a_marker_counts_from_the_next_line_on() -> None:
    assert find("<NOTE>n</NOTE>\n```\n<DONE>x</DONE>\n```") == [note("n"), text("```\n<DONE>x</DONE>\n```")]


# ---- code in content --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        "close it with `</DONE>` always",
        "`<DONE>` and `</DONE>` and `</DONE>`",
        "for example\n```\n<DONE>a</DONE>\n\n<DONE>b</DONE>\n```\nwas wrong",
        "~~~\n</DONE>\n~~~",
        "<NOTE>",
        "``` on one line ``` is `fine`",
    ],
)
def test_content_may_quote_its_own_closing_tag(content: str) -> None:
    expected = [done(content.strip()), text("and\n```\ncode\n```"), note("n")]
    assert find(f"<DONE>\n{content}\n</DONE> and\n```\ncode\n```\n<NOTE>n</NOTE>") == expected


@pytest.mark.parametrize("stray", ["`", "``", "```", "\n```\n", "\n~~~", "\n- ```py\nx"])
def test_stray_code_in_content_costs_no_marker(stray: str) -> None:
    for after in ["", " more", "\n```\nx\n```\n", " a ` b `` c ``` d"]:
        for between in [" ", "\n", "\n\n"]:
            found = find(f"<NOTE>a {stray} b</NOTE>{after}{between}\n\n<DONE>c</DONE>")
            assert note(f"a {stray} b") in found
            assert done("c") in found


def test_a_stray_backtick_does_not_reach_over_the_next_opening_tag() -> None:
    assert find("<NOTE>a ` b</NOTE> c ` d <DONE>x</DONE> <NOTE>y</NOTE>") == [
        note("a ` b"),
        text("c ` d"),
        done("x"),
        note("y"),
    ]


# ---- pieces -----------------------------------------------------------------------------------


def test_a_marker_may_be_split_anywhere() -> None:
    message = "a `<NOTE>` <NO`TE>\n\n <NOTE>b\n```\n</NOTE>\n```\nc</NOTE>\n~~~\n<DONE>d</DONE>\n~~~ \n<DONE>e</DONE> f"
    whole = find(message)
    assert note("b\n```\n</NOTE>\n```\nc") in whole
    assert done("e") in whole
    parser = MarkerParser(MARKERS)
    for first in range(len(message) + 1):
        for second in range(first, len(message) + 1):
            assert parsed(parser, [message[:first], message[first:second], message[second:]]) == whole


def parsed(parser: MarkerParser, pieces: Sequence[str]) -> list[Found]:
    found = [event for piece in pieces for event in parser.feed(piece)]
    return found + parser.end()


@pytest.mark.parametrize("odd", ["\0", "\x0c", "\x85", "\u2028", "\ud800", "\r", "\N{BOM}", "\N{PILE OF POO}"])
def test_no_character_is_too_odd(odd: str) -> None:
    assert find(f"a{odd}b<NOTE>c{odd}d</NOTE>") == [text(f"a{odd}b"), note(f"c{odd}d")]
    assert find(f"`{odd}<NOTE>x</NOTE>`")[1:] == []
    assert find(f"```{odd}\n<NOTE>x</NOTE>")[1:] == []


# ---- any text at all --------------------------------------------------------------------------

TOKENS = [
    *("<NOTE>", "</NOTE>", "<NOTE>", "</NOTE>", "<DONE>", "</DONE>", "<PLAN_COMPLETE>", "</PLAN_COMPLETE>", "<", "</"),
    *("`", "`", "``", "```", "````", "~~~", "~~~~", "\n```\n", "\n~~~\n", "\n````\n", "\n```", "\n```py\n"),
    *("\n", "\n", "\r\n", "\n\n", "\n \t\n", "\r", " ", "    ", "\t", "\n- ", "\n> ", "\n>\n", "\n12. ", "\n# "),
    *("a", "word", "-", "1.", "#", "\\", "NOTE", ">", "\u2028", "\ud800", "\0"),
    *("`<NOTE>`", "`</NOTE>`", "<NOTE>n</NOTE>", "<DONE>\n```\n</DONE>\n```\n</DONE>"),
]
# Drawn as one string with a character for each token: to draw a list of them costs several times as much.
texts = st.text("".join(map(chr, range(len(TOKENS)))), max_size=40).map(
    lambda drawn: "".join(TOKENS[ord(each)] for each in drawn)
)
quickly = settings(max_examples=200)


@quickly
@given(message=texts, cuts=st.lists(st.integers(0, 150), max_size=8))
def test_the_result_does_not_depend_on_where_a_message_is_split(message: str, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(message)) for cut in cuts), len(message)]
    pieces = [message[start:end] for start, end in pairwise(edges)]
    parser = MarkerParser(MARKERS)
    assert parsed(parser, pieces) == find(message)
    assert parsed(parser, list(message)) == find(message)


@quickly
@given(message=texts)
def test_nothing_is_lost_and_nothing_is_added(message: str) -> None:
    rest = message
    for event in find(message):
        if isinstance(event, AgentMessage):
            assert event.text == event.text.strip() != ""
            parts = [event.text]
        else:
            assert isinstance(event, MARKERS)
            assert event.content == event.content.strip()
            parts = [f"<{tag_name(type(event))}>", event.content, f"</{tag_name(type(event))}>"]
        for part in parts:
            rest = rest.lstrip()
            assert rest.startswith(part)
            rest = rest.removeprefix(part)
    assert not rest.strip()


@settings(quickly, max_examples=1200)
@given(message=texts)
@example("<NOTE>`</NOTE>` ``</NOTE>`` ` ``</NOTE><DONE>")
@example("<NOTE>\n```\n</NOTE>\n<DONE>x</DONE>\n```\n<NOTE></NOTE>")
def test_the_rules_read_slowly_give_the_same(message: str) -> None:
    assert find(message) == slowly(message)


# ---- the rules again, read slowly: one character after the other, nothing remembered -----------


def slowly(message: str) -> list[Found]:
    found: list[Found] = []
    kept = position = 0
    code = code_after(message, 0)
    while position < len(message):
        marker = next((each for each in MARKERS if message.startswith(f"<{tag_name(each)}>", position)), None)
        if position in code:
            position = code[position]
        elif marker is None or (end := content_end(message, position, marker)) is None:
            position += 1
        else:
            name = tag_name(marker)
            found += [text(words)] if (words := message[kept:position].strip()) else []
            found.append(marker(content=message[position + len(name) + 2 : end].strip()))
            kept = position = end + len(name) + 3
            code = code_after(message, position)
    return found + ([text(words)] if (words := message[kept:].strip()) else [])


def content_end(message: str, opening: int, marker: type[LlmMarkerEvent]) -> int | None:
    start = opening + len(f"<{tag_name(marker)}>")
    closing = f"</{tag_name(marker)}>"
    end = message.find(closing, start)
    if end < 0:
        return None
    for code_start, code_end in code_after(message, start).items():
        if code_start <= end < code_end:
            following = message.find(closing, code_end)
            between = message[code_end : max(following, code_end)]
            if following < 0 or any(
                f"<{tag_name(each)}>" in between
                and message.rfind(f"</{tag_name(each)}>") > message.find(f"<{tag_name(each)}>", code_end)
                for each in MARKERS
            ):
                break
            end = following
    return end


def code_after(message: str, position: int) -> dict[int, int]:
    """Where code begins → where it ends, in order; `position` is in none."""
    code: dict[int, int] = {}
    while position < len(message):
        end = None
        if position == 0 or message[position - 1] == "\n":
            end = block_end(message, position)
        if end is None and message[position] == "`":
            end = span_end(message, position)
        if end is not None:
            code[position] = end
            position = end
        elif message[position] == "`":
            position += run_length(message, position, "`")
        else:
            position += 1
    return code


def run_length(message: str, position: int, character: str) -> int:
    return len(message[position:]) - len(message[position:].lstrip(character))


def lines_after(message: str, position: int) -> Iterator[tuple[int, str]]:
    """The lines after the one that `position` is in."""
    while (line_feed := message.find("\n", position)) >= 0:
        position = line_feed + 1
        yield position, line_at(message, position)


def line_at(message: str, start: int) -> str:
    return message[start:].split("\n", 1)[0]


def after_bullet(line: str) -> str | None:
    """What follows a list item's bullet or number and the white space after it."""
    if line[:1] in ("-", "*", "+"):
        rest = line[1:]
    else:
        rest = line.lstrip("0123456789")
        if not 1 <= len(line) - len(rest) <= 9 or rest[:1] not in (".", ")"):
            return None
        rest = rest[1:]
    return rest if rest[:1] in (" ", "\t", "\r", "") else None


def opening_fence(line: str) -> str | None:
    line = line.lstrip(" \t>")
    while (rest := after_bullet(line)) is not None and rest[:1] in (" ", "\t"):
        line = rest.lstrip(" \t>")
    length = max(run_length(line, 0, "`"), run_length(line, 0, "~"))
    if length < 3 or (line[0] == "`" and "`" in line[length:]):
        return None
    return line[:length]


def block_end(message: str, start: int) -> int | None:
    fence = opening_fence(line_at(message, start))
    if fence is None:
        return None
    for line_start, line in lines_after(message, start):
        closing = line.lstrip(" \t>").rstrip(" \t\r")
        if len(closing) >= len(fence) and set(closing) == {fence[0]}:
            return line_start + len(line)
    return len(message)


def span_end(message: str, start: int) -> int | None:
    length = run_length(message, start, "`")
    end = next((line for line, words in lines_after(message, start) if ends_paragraph(words)), len(message))
    position = start + length
    while position < end:
        run = run_length(message[:end], position, "`")
        if run == length:
            return position + run
        position += max(run, 1)
    return None


def ends_paragraph(line: str) -> bool:
    if opening_fence(line) is not None:
        return True
    line = line.lstrip(" \t>")
    hashes = run_length(line, 0, "#")
    heading = 1 <= hashes <= 6 and line[hashes : hashes + 1] in ("", " ", "\t", "\r")
    return heading or line in ("", "\r") or after_bullet(line) is not None
