"""An agent that plays a script instead of asking a model, and prints claude's lines.

The demo and the tests use it, and people try configurations with it free of charge. `script` defines scripts, `play`
plays them, `backend` makes the program an agent like the others.
"""

BAD_SCRIPT = 78
"""Exit code for a script that cannot be played (EX_CONFIG); otherwise used only by a script that asks for it."""
