"""`python -m cuggino.agents.scripted`: started by `ScriptedBackend`, and by people who debug a script."""

from __future__ import annotations

import sys

from cuggino.agents.scripted.program import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
