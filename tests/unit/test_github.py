"""Responses that gh printed, and URLs of remotes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuggino.git.remotes import Slug, parse_remote_url
from cuggino.github import Response, error_message, parse_response, rate_limit


@pytest.mark.parametrize(
    ("url", "slug"),
    [
        ("https://github.com/o/r.git", Slug("o", "r")),
        ("https://github.com/o/r", Slug("o", "r")),
        ("https://github.com/o/r/", Slug("o", "r")),
        ("https://user:secret@GitHub.com/o/r.git", Slug("o", "r")),
        ("http://github.localhost:8080/o/r.git", Slug("o", "r", "github.localhost")),
        ("ssh://git@github.com/o/r.git", Slug("o", "r")),
        ("ssh://git@ssh.github.com:443/o/r.git", Slug("o", "r")),
        ("git@github.com:o/r.git", Slug("o", "r")),
        ("github.com:o/r.name.git", Slug("o", "r.name")),
        ("org-123@git.example.org:o/r", Slug("o", "r", "git.example.org")),
        ("git@gitlab.example.org:group/sub/r.git", None),
        ("https://github.com/o", None),
        ("https://github.com/o/..", None),
        ("https://[broken/o/r", None),
        ("file:///srv/o/r.git", None),
        ("/srv/o/r.git", None),
        ("../o/r.git", None),
        ("o/r", None),
        ("", None),
    ],
)
def test_a_remote_url_names_a_repository_or_none(url: str, slug: Slug | None) -> None:
    assert parse_remote_url(url) == slug


def test_a_response_of_http_2_is_parsed() -> None:
    printed = b"HTTP/2.0 200 OK\nContent-Type: application/json\r\nX-Ratelimit-Remaining: 12\r\n\r\n{}\r\n\r\n"
    headers = {"content-type": "application/json", "x-ratelimit-remaining": "12"}
    assert parse_response(printed) == Response(200, headers, b"{}\r\n\r\n")


@pytest.mark.parametrize("printed", [b"", b"HTTP/1.1 200", b"gh: no\nHTTP/1.1 200 OK\n\r\n", b"{}"])
def test_output_without_a_line_of_http_is_not_a_response(printed: bytes) -> None:
    assert parse_response(printed) is None


@given(st.binary(), st.sampled_from([200, 403, 422, 429, 502]))
def test_any_body_can_be_interpreted(body: bytes, status: int) -> None:
    response = Response(status, {}, body)
    assert error_message(response).endswith(f"HTTP {status}") or error_message(response).endswith(f"(HTTP {status})")
    assert rate_limit(response, 0) == (60 if status == 429 else None)


@pytest.mark.parametrize(
    ("status", "headers", "body", "seconds"),
    [
        (403, {}, b'{"message": "Resource not accessible by integration"}', None),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1090"}, b"{}", 90),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "900"}, b"{}", 0),
        (403, {"x-ratelimit-remaining": "4999", "x-ratelimit-reset": "1090"}, b"{}", None),
        (403, {"retry-after": "30", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1090"}, b"{}", 30),
        (429, {"retry-after": "soon"}, b"<html>", 60),
        (200, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1090"}, b'{"data": {}}', None),
        (200, {}, b'{"errors": [{"type": "RATE_LIMITED", "message": "m"}]}', 60),
        (502, {"retry-after": "30"}, b"", None),
    ],
)
def test_the_seconds_of_a_rate_limit(status: int, headers: dict[str, str], body: bytes, seconds: float | None) -> None:
    assert rate_limit(Response(status, headers, body), 1000) == seconds


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"message": "Validation Failed", "errors": "a\\n text"}', "Validation Failed; a text (HTTP 422)"),
        (b'{"message": null, "errors": [{"code": "x"}, {"message": "m"}, {"message": "m"}]}', "m (HTTP 422)"),
        (b'["message"]', "HTTP 422"),
    ],
)
def test_the_message_of_an_error(body: bytes, message: str) -> None:
    assert error_message(Response(422, {}, body)) == message
