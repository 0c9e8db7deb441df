"""The default manifest: the whole project, and the commands that projects of its kind usually need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from cuggino.commands import exactly
from cuggino.config import Config
from cuggino.manifest import SandboxManifest

READING_COMMANDS = (
    *("git status *", "git diff *", "git log *", "git show *", "git blame *", "git ls-files *", "git rev-parse *"),
    *("git describe *", "git shortlog *", "git merge-base *", "git cat-file *", "git branch --list *"),
    *("git branch --show-current", "git remote -v", "git tag --list *", "git stash list"),
)

_SUGGESTED: Mapping[str, Sequence[str]] = {
    "pyproject.toml": (
        "pytest *",
        "python -m pytest *",
        "python3 -m pytest *",
        ".venv/bin/pytest *",
        "ruff *",
        "mypy *",
    ),
    "setup.py": ("pytest *", "python -m pytest *", "python3 -m pytest *"),
    "uv.lock": ("uv run *", "uv sync *"),
    "poetry.lock": ("poetry run *", "poetry install *"),
    "tox.ini": ("tox *",),
    "noxfile.py": ("nox *",),
    "package.json": ("npm ci *", "npm install *", "npm test *", "npm run *"),
    "tsconfig.json": ("npx tsc *",),
    "yarn.lock": ("yarn install *", "yarn test *", "yarn run *"),
    "pnpm-lock.yaml": ("pnpm install *", "pnpm test *", "pnpm run *"),
    "bun.lock": ("bun install *", "bun test *", "bun run *"),
    "deno.json": ("deno test *", "deno check *", "deno lint *", "deno fmt *", "deno task *"),
    "Makefile": ("make *",),
    "justfile": ("just *",),
    "Cargo.toml": ("cargo build *", "cargo test *", "cargo check *", "cargo clippy *", "cargo fmt *", "cargo run *"),
    "go.mod": ("go build *", "go test *", "go vet *", "go fmt *", "go run *", "go mod tidy *", "gofmt *"),
    "pom.xml": ("mvn compile *", "mvn test *", "mvn verify *", "mvn package *", "./mvnw *"),
    "build.gradle": ("gradle build *", "gradle test *", "gradle check *", "./gradlew *"),
    "CMakeLists.txt": ("cmake *", "ctest *"),
    "meson.build": ("meson *", "ninja *"),
    "Gemfile": ("bundle install *", "bundle exec *", "rake *"),
    "composer.json": ("composer install *", "composer run *", "vendor/bin/phpunit *"),
    "mix.exs": ("mix deps.get *", "mix compile *", "mix test *", "mix format *"),
    "Package.swift": ("swift build *", "swift test *"),
}
"""A file in the project's root → the commands that it suggests."""

_ALIASES = {
    "pyproject.toml": ("setup.cfg", "pytest.ini"),
    "uv.lock": ("pyproject.toml",),
    "Makefile": ("makefile", "GNUmakefile"),
    "justfile": ("Justfile", ".justfile"),
    "build.gradle": ("build.gradle.kts",),
    "bun.lock": ("bun.lockb",),
    "deno.json": ("deno.jsonc",),
}


def default_manifest(root: Path, config: Config) -> SandboxManifest:
    """Return a manifest for the whole repository and the usual commands of the project at `root`."""
    present = [name for name in _SUGGESTED if any((root / each).is_file() for each in (name, *_ALIASES.get(name, ())))]
    commands = (
        *READING_COMMANDS,
        *configured(config),
        *(command for name in present for command in _SUGGESTED[name]),
    )
    return SandboxManifest(allowed_commands=tuple(dict.fromkeys(commands)))


def configured(config: Config) -> list[str]:
    """Return patterns for exactly the configured commands."""
    commands = (config.setup_command, config.check_command, config.validate_command)
    return [exactly(command) for command in commands if command]
