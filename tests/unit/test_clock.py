"""IDs and time stamps."""

from __future__ import annotations

import time
import uuid

import pytest

from cuggino.clock import time_of, timestamp, uuid7


def test_an_id_is_a_valid_uuid7_that_holds_the_time() -> None:
    before = time.time_ns() // 1_000_000
    text = uuid7()
    parsed = uuid.UUID(text)
    assert str(parsed) == text
    assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)
    assert before <= parsed.int >> 80 <= time.time_ns() // 1_000_000 + 1
    made = time_of(text)
    assert made is not None
    assert made.timestamp() * 1000 == pytest.approx(parsed.int >> 80, abs=0.01)


def test_ids_are_unique_and_ordered_even_if_the_clock_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [uuid7() for _ in range(10_000)]
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    made += [uuid7() for _ in range(10_000)]
    assert made == sorted(set(made))


def test_the_time_of_an_id_is_known() -> None:
    made = time_of("01a20036-613d-7871-98ae-4c8044faa5da")
    assert made is not None
    assert made.isoformat(timespec="milliseconds") == "2026-11-21T22:24:53.565+00:00"


@pytest.mark.parametrize(
    "text", ["", "notes", "ffffffff-ffff-7fff-8fff-ffffffffffff", "01aa2f3a-1d7d-4000-8000-000000000000"]
)
def test_other_text_has_no_time(text: str) -> None:
    assert time_of(text) is None


def test_a_time_stamp_is_utc_with_milliseconds() -> None:
    assert [timestamp(seconds) for seconds in (0.0, 0.9999, 1.0, 1795297964.962)] == [
        "1970-01-01T00:00:00.000Z",
        "1970-01-01T00:00:00.999Z",
        "1970-01-01T00:00:01.000Z",
        "2026-11-21T21:52:44.962Z",
    ]
    assert timestamp(time.time() - 1) < timestamp() < timestamp(time.time() + 1)
