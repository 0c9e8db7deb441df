"""The GraphQL queries against GitHub's public schema."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from cuggino.ci.find import LOOKUP
from cuggino.ci.query import QUERY

pytestmark = pytest.mark.e2e

SCHEMA = Path(__file__).parents[2] / ".tools/node_modules/@octokit/graphql-schema/schema.graphql"


@pytest.fixture(scope="module")
def schema() -> Any:
    if os.environ.get("CUGGINO_E2E") != "1":
        pytest.importorskip("graphql")
        if not SCHEMA.exists():
            pytest.skip("GitHub's schema is not installed")
    from graphql import build_schema

    return build_schema(SCHEMA.read_text(), assume_valid=True)  # it violates a new rule about deprecations


@pytest.mark.parametrize("query", [QUERY, LOOKUP])
def test_the_queries_are_valid(schema: Any, query: str) -> None:
    from graphql import parse, validate

    assert validate(schema, parse(query)) == []


def test_an_invalid_query_is_detected(schema: Any) -> None:
    from graphql import parse, validate

    assert validate(schema, parse(QUERY.replace("isResolved", "isSolved")))
    assert validate(schema, parse(QUERY.replace("$number: Int!", "$number: String!")))
