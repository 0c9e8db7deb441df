"""`cuggino` and `python -m cuggino`. `--version` is answered before anything heavy is imported."""

# Ctrl+C ends the process by the signal until a command handles signals itself: Python's own handler would raise
# KeyboardInterrupt anywhere in the imports and print a traceback. `_signal` is compiled in; `signal` imports others.
import _signal  # type: ignore[import-not-found]

if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:  # else it is ignored, as in a background job
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

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
