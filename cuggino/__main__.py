"""`cuggino` and `python -m cuggino`. `--version` is answered before anything heavy is imported."""

from __future__ import annotations

import sys


def main() -> None:
    if sys.argv[1:] in (["--version"], ["-V"]):
        from cuggino import __version__

        print(__version__)
        return
    from cuggino.main import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
