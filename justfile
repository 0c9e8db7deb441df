# `sh .ci/just RECIPE` first makes .venv, with `just` in it, if it is missing. After that `.venv/bin/just RECIPE` works too.

set positional-arguments

# Tests run in parallel: one more at a time than there are processors, since many wait for child processes, up to eight.
# `-n 0` after a recipe runs them one after the other, in one process.
parallel := "--dist worksteal --maxprocesses 8 -n $((1 + " + num_cpus() + "))"

export PATH := justfile_directory() / ".venv/bin:" + env("PATH")

# The agents that the end-to-end tests run, and GitHub's public schema. They are installed in one command: npm removes what
# a later install does not name.
programs := "@anthropic-ai/claude-code@2.1.197 @openai/codex@0.169.0 @google/gemini-cli@0.61.0 opencode-ai@1.18.33"
schema := "@octokit/graphql-schema@15.26.1"

[private]
default:
    @just --list --unsorted

# Install what the tests and checks need
setup:
    @cmp -s requirements/dev.txt .venv/installed-dev || { \
        echo "Installing what the tests and checks need into .venv" >&2 && \
        .venv/bin/python -m pip install -qq --disable-pip-version-check --require-hashes -r requirements/dev.txt && \
        cp requirements/dev.txt .venv/installed-dev; }

# Run the whole loop on a sample project: no key, no network, a few seconds
demo *arguments:
    @cuggino demo "$@"

# Run the tests: units, real processes, the package and the documents
test *arguments: setup
    pytest {{ parallel }} tests/unit tests/process tests/package tests/docs "$@"

# Check style, format and imports
lint: setup
    ruff check
    ruff format --check
    lint-imports --no-logo

# Check the types of cuggino and its tests
type: setup
    mypy

# Run everything that a change must pass, except for the end-to-end tests
check: test lint type

# Run the tests with the real agents (npm installs them into .tools), which talk to servers on this machine only
e2e *arguments: setup _programs
    CUGGINO_E2E=1 pytest {{ parallel }} tests/e2e "$@"

# Measure what cuggino costs, as a table of ratios
bench *arguments: setup
    python -m bench "$@"

# Pin the newest versions in requirements/, with hashes and without addresses
lock: setup
    uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
        pyproject.toml --group build -o requirements/run.txt
    uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
        pyproject.toml --group dev -c requirements/run.txt -o requirements/dev.txt

# Test the documents: their commands, configurations, code, links and words
docs *arguments: setup
    pytest tests/docs "$@"

# Record the demo as docs/demo.svg, the picture in the README
recording: setup
    python docs/recording.py

[private]
_programs:
    @test "$(cat .tools/installed 2>/dev/null)" = "{{ programs }} {{ schema }}" || { \
        command -v npm >/dev/null || { \
            echo "The end-to-end tests install the agents with npm, and npm is not in PATH." \
                "Install Node.js 20 or later (Debian: apt-get install npm; macOS: brew install node), then run this again." >&2; \
            exit 1; }; \
        echo "Installing {{ programs }} into .tools" >&2 && \
        npm install --loglevel=error --no-fund --no-audit --prefix .tools --no-save --ignore-scripts {{ programs }} {{ schema }} && \
        echo "{{ programs }} {{ schema }}" > .tools/installed; }
