from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated, Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect

from cuggino import strict_json
from cuggino.config import BackendName, Config, Limits, SpawnSettings, decode, load
from cuggino.errors import ConfigError
from cuggino.events import PrintableEvent
from cuggino.roles import Role

OF_THE_LOOP = [Role.PLANNER, Role.IMPLEMENTER, Role.REVIEWER, Role.AUDIT]
WHERE = "/project/.cuggino.json"


def refused(data: bytes | str) -> str:
    with pytest.raises(ConfigError) as caught:
        decode(data.encode() if isinstance(data, str) else data, WHERE)
    text = str(caught.value)
    assert text.startswith(f"{WHERE}: ")
    assert caught.value.exit_code == 2
    return text


# ---- what can be taken ------------------------------------------------------------------------


def test_no_file_and_an_empty_object_are_the_defaults(tmp_path: Path) -> None:
    assert load(tmp_path / "none") == decode(b"{}", WHERE) == Config()


def test_every_key_can_be_set() -> None:
    config = decode(
        b"""{
            "specsPath": "docs/specs", "maxIterations": 3, "setupCommand": "make db", "checkCommand": "make check",
            "validateCommand": "make all", "commit": true, "audit": true, "agent": "codex",
            "agents": {"planner": "claude", "audit": "gemini"}, "model": "large",
            "limits": {"idleTimeout": 0.5, "agentTimeout": 10, "commandTimeout": 60, "nudges": 0, "retries": 0,
                       "maxTasks": 1, "maxCostUsd": 2.5, "maxRuntime": 3600},
            "spawn": {"root": "/var/tmp", "include": [".env"], "secrets": ["env:TOKEN", "file:~/.netrc"],
                      "neverAllow": [], "launcher": ["ssh", "host"], "integrate": "merge", "repairAttempts": 0},
            "ci": {"threads": "none", "trustedBots": ["dependabot"], "maxIterations": 1},
            "notify": {"command": ["notify-send"], "events": ["LoopApproved", "LoopFailed"]}
        }""",
        WHERE,
    )
    assert config.limits == Limits(
        idle_timeout=0.5,
        agent_timeout=10,
        command_timeout=60,
        nudges=0,
        retries=0,
        max_tasks=1,
        max_cost_usd=2.5,
        max_runtime=3600,
    )
    assert config.spawn == SpawnSettings(
        root="/var/tmp",
        include=(".env",),
        secrets=("env:TOKEN", "file:~/.netrc"),
        never_allow=(),
        launcher=("ssh", "host"),
        integrate="merge",
        repair_attempts=0,
    )
    assert [config.backend(role) for role in OF_THE_LOOP] == ["claude", "codex", "codex", "gemini"]
    assert decode(msgspec.json.encode(config), WHERE) == config


@pytest.mark.parametrize("role", OF_THE_LOOP)
@pytest.mark.parametrize("backend", get_args(BackendName))
def test_each_role_can_have_each_backend(role: Role, backend: BackendName) -> None:
    config = decode(msgspec.json.encode({"agents": {role.value: backend}}), WHERE)
    assert {other: config.backend(other) for other in Role} == {**dict.fromkeys(Role, "claude"), role: backend}


def test_every_event_that_is_shown_can_be_notified() -> None:
    names = [event.__name__ for event in get_args(PrintableEvent)]
    assert decode(msgspec.json.encode({"notify": {"events": names}}), WHERE).notify.events == tuple(names)


def test_a_byte_order_mark_is_skipped() -> None:
    assert decode(b'\xef\xbb\xbf{"commit": true}', WHERE).commit


@pytest.mark.parametrize("path", ["specs", "./specs/", "docs/../specs", "..specs", "a/..b", "Spezi fikation/é"])
def test_specs_may_be_anywhere_below_the_root(path: str) -> None:
    assert decode(msgspec.json.encode({"specsPath": path}), WHERE).specs_path == path


# ---- what cannot ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"maxIterations": "10"}', '$.maxIterations: got "10"; expected an integer ≥ 1.'),
        ('{"maxIterations": 0}', "$.maxIterations: got 0; expected an integer ≥ 1."),
        ('{"maxIterations": 1.0}', "$.maxIterations: got 1.0; expected an integer ≥ 1."),
        ('{"maxIterations": true}', "$.maxIterations: got true; expected an integer ≥ 1."),
        ('{"commit": null}', "$.commit: got null; expected true or false."),
        ('{"commit": "yes"}', '$.commit: got "yes"; expected true or false.'),
        ('{"checkCommand": " "}', '$.checkCommand: got " "; expected a non-blank string, or null.'),
        ('{"model": "a\\u0000b"}', '$.model: got "a\\u0000b"; expected a non-blank string'),
        ('{"limits": {"idleTimeout": 0}}', "$.limits.idleTimeout: got 0; expected a number of seconds > 0."),
        ('{"limits": {"maxRuntime": 1e999}}', "$.limits.maxRuntime: got Infinity; expected a number of seconds"),
        ('{"limits": {"nudges": -1}}', "$.limits.nudges: got -1; expected an integer ≥ 0."),
        ('{"limits": {"maxCostUsd": 0}}', "$.limits.maxCostUsd: got 0; expected a number of US dollars"),
        ('{"limits": []}', "$.limits: got []; expected an object with the keys idleTimeout, agentTimeout,"),
        ("[]", "$: got []; expected an object with the keys specsPath, maxIterations,"),
        ("3", "$: got 3; expected an object"),
        ('{"spawn": {"include": "x"}}', '$.spawn.include: got "x"; expected a list; each item: a non-blank'),
        ('{"spawn": {"include": ["x", 3]}}', "$.spawn.include[1]: got 3; expected a non-blank string."),
        ('{"spawn": {"secrets": ["X"]}}', '$.spawn.secrets[0]: got "X"; expected "env:NAME" or "file:PATH".'),
        ('{"spawn": {"integrate": "rebase"}}', 'got "rebase"; expected one of "branch", "merge", "pr", or null.'),
        ('{"ci": {"threads": "bot"}}', 'got "bot"; expected one of "all", "bots", "none".\nDid you mean bots?'),
        ('{"agents": {"planner": "cluade"}}', "\nDid you mean claude?"),
        ('{"notify": {"events": ["LoopAproved"]}}', "\nDid you mean LoopApproved?"),
        ('{"model": ["' + "x" * 100 + '"]}', f'got ["{"x" * 55}...; expected'),
        ('{"specsPath": "/specs"}', '$.specsPath: got "/specs", which is absolute; expected a relative path below'),
        ('{"specsPath": "//specs"}', "which is absolute"),
        ('{"specsPath": "a/../../specs"}', "which leaves the project; expected"),
        ('{"specsPath": ".."}', "which leaves the project"),
        ('{"specsPath": ""}', "which is not a path"),
        ('{"specsPath": " "}', "which is not a path"),
        ('{"specsPath": "a\\u0000"}', "which is not a path"),
        ('{"specsPath": "a/.."}', "which is the whole project"),
        ('{"specsPath": 3}', "$.specsPath: got 3; expected a relative path below the project root."),
    ],
)
def test_a_wrong_value_is_reported_with_its_key_and_what_is_expected(text: str, message: str) -> None:
    assert message in refused(text)


@pytest.mark.parametrize(
    ("text", "key", "nearest"),
    [
        ('{"maxIteration": 3}', "$.maxIteration", "maxIterations"),
        ('{"max_iterations": 3}', "$.max_iterations", "maxIterations"),
        ('{"SPECSPATH": 3}', "$.SPECSPATH", "specsPath"),
        ('{"checkComand": "x"}', "$.checkComand", "checkCommand"),
        ('{"limits": {"maxIterations": 3}}', "$.limits.maxIterations", "maxTasks"),
        ('{"limits": {"idelTimeout": 3}}', "$.limits.idelTimeout", "idleTimeout"),
        ('{"agents": {"planer": "x"}}', "$.agents.planer", "planner"),
        ('{"max iterations": 3}', '$["max iterations"]', "maxIterations"),
    ],
)
def test_an_unknown_key_is_reported_with_the_nearest_known_key(text: str, key: str, nearest: str) -> None:
    message = refused(text)
    assert f"{WHERE}: {key}: unknown key with the value " in message
    assert message.endswith(f"\nDid you mean {nearest}?")


def test_an_unknown_key_unlike_any_other_is_reported_with_all_known_keys() -> None:
    assert refused('{"ci": {"zzz": {}}}').endswith(
        "$.ci.zzz: unknown key with the value {}; known keys: threads, trustedBots, maxIterations."
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", "line 1, column 2: not JSON: "),
        (b'{\n  "commit": true,\n}', "line 2, column 17: not JSON: a comma after the last entry, "),
        (b'{"spawn": {"include": ["a",]}}', "line 1, column 27: not JSON: a comma after the last entry, "),
        (b'{\n  "commit": true, // mine\n  "audit": true}', "line 2, column 19: not JSON: a comment, "),
        (b'{\n  "commit": true // mine\n}', '\n    "commit": true // mine\n                   ^'),
        (b'{"model": "' + b"x" * 200 + b'", /* mine */}', f'\n  {"x" * 62}", /* mine */}}\n  {" " * 65}^'),
        ('{"é": 1,\n "é" 1}'.encode(), "line 2, column 6: not JSON: Expecting ':' delimiter; found: 1}"),
        (b"{} {}", "line 1, column 4: not JSON: Extra data; found: {}"),
        (b"// mine\n{}", "line 1, column 1: not JSON: a comment, "),
        (
            '{"model":\n "é", "maxIterations": NaN}'.encode(),
            "line 2, column 24: not JSON: invalid character; found: NaN}",
        ),
        (b'{"model": "\\ud800"}', "not JSON: "),
        (b"", "is empty.\nWrite {} for the defaults"),
        (b" \n", "is empty."),
        (b'{"model":\n"\xff"}', "line 2: not valid UTF-8: byte 0xff."),
        (b'{"limits": {"nudges": 1, "nudges": 2}}', 'the key "nudges" appears twice in one object.'),
        (b'{"maxIterations": ' + b"9" * 5000 + b"}", "too many digits"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_invalid_json_is_reported_with_line_and_column(data: bytes, message: str) -> None:
    assert message in refused(data)


def test_the_place_of_the_schema_is_accepted_and_ignored() -> None:
    assert decode(b'{"$schema": "./cuggino.schema.json", "commit": true}', WHERE) == Config(commit=True)
    assert "$schema" in refused('{"$schema": 3}')


def test_all_errors_are_reported_at_once() -> None:
    text = '{"comit": true, "maxIterations": 0, "limits": {"nudges": -1, "idelTimeout": 3}, "spawn": {"include": [3]}}'
    message = refused(text)
    keys = ["$.comit", "$.maxIterations", "$.limits.nudges", "$.limits.idelTimeout", "$.spawn.include[0]"]
    assert [key for key in keys if f"{WHERE}: {key}: " in message] == keys
    assert message.count(WHERE) == len(keys)
    assert "Did you mean commit?" in message
    assert "Did you mean idleTimeout?" in message


_trees = st.recursive(
    st.none() | st.text(max_size=8), lambda inner: st.dictionaries(st.text(max_size=8), inner, max_size=4), max_leaves=8
)


@given(st.binary(max_size=60) | _trees.map(msgspec.json.encode))
def test_nothing_but_a_config_error_is_ever_raised(data: bytes) -> None:
    with contextlib.suppress(ConfigError):
        decode(data, WHERE)


class _Door(msgspec.Struct, forbid_unknown_fields=True):
    width: Annotated[int, msgspec.Meta(ge=1)]
    colour: str = "red"


class _House(msgspec.Struct, forbid_unknown_fields=True):
    door: _Door


def test_a_missing_key_is_named_with_what_is_expected() -> None:
    for text, message in (
        ("{}", "house.json: $.door: missing; expected an object with the keys width, colour."),
        ('{"door": {"colour": "blue"}}', "house.json: $.door.width: missing; expected an integer ≥ 1."),
    ):
        with pytest.raises(ConfigError) as caught:
            strict_json.decode(text.encode(), _House, "house.json")
        assert message in str(caught.value)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (".", "a directory; expected a JSON file"),
        ("nowhere", "a link to a file that does not exist"),
        ("link", "cannot be read: "),  # refused even to a superuser
    ],
)
def test_a_directory_a_broken_link_and_an_unreadable_file_are_errors(tmp_path: Path, target: str, message: str) -> None:
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(ConfigError, match=message):
        load(tmp_path / "link")


def test_there_are_words_for_every_type_in_the_configuration() -> None:
    def leaves(kind: Any) -> int:
        assert strict_json._allowed(kind)
        return 1 + sum(leaves(field.type) for field in getattr(kind, "fields", ()))

    assert leaves(inspect.type_info(Config)) > 35
