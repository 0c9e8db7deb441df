# `sh .ci/just RECIPE` makes .venv first where it is missing, and brings `just` along. After that `.venv/bin/just RECIPE` does too.

set positional-arguments

# Several tests at once: one more than there are processors, since many wait for others' processes, and not more than
# eight. `-n 0` behind a recipe runs one after the other, in this process.
parallel := "--dist worksteal --maxprocesses 8 -n $((1 + " + num_cpus() + "))"

export PATH := justfile_directory() / ".venv/bin:" + env("PATH")

# The agents that the end-to-end tests run, and GitHub's public schema, all installed at once: npm removes what a later
# install does not name
programs := "@anthropic-ai/claude-code@2.1.197 @openai/codex@0.169.0 @google/gemini-cli@0.61.0 opencode-ai@1.18.33"
schema := "@octokit/graphql-schema@15.26.1"

[private]
default:
    @just --list --unsorted

# Install what developing needs besides cuggino's own dependencies
setup:
    @cmp -s requirements/dev.txt .venv/installed-dev || { \
        echo "Installing what the tests and checks need into .venv" >&2 && \
        .venv/bin/python -m pip install -qq --disable-pip-version-check --require-hashes -r requirements/dev.txt && \
        cp requirements/dev.txt .venv/installed-dev; }

# The whole loop on a sample project: no key, no network, seconds
demo *arguments:
    @cuggino demo "$@"

# The tests: on the virtual clock, with real child processes, and of the documents
test *arguments: setup
    pytest {{ parallel }} tests/unit tests/process tests/docs "$@"

# Style, format, and who may import whom
lint: setup
    ruff check
    ruff format --check
    lint-imports --no-logo

# The types of cuggino and of its tests
type: setup
    mypy

# All that a change must pass, but for the end-to-end tests
check: test lint type

# The tests against the agents' real programs (into .tools, with npm), talking to servers on this machine only
e2e *arguments: setup _programs
    CUGGINO_E2E=1 pytest {{ parallel }} tests/e2e "$@"

# What it costs: a table of ratios, each measured here and now
bench *arguments: setup
    python -m bench "$@"

# Pin the newest versions, with hashes and without addresses, in requirements/
lock: setup
    uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
        pyproject.toml --group build -o requirements/run.txt
    uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
        pyproject.toml --group dev -c requirements/run.txt -o requirements/dev.txt

# Test the documents: their commands, configurations, code and links
docs *arguments: setup
    pytest tests/docs "$@"

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
