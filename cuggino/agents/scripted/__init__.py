"""An agent that plays a script instead of asking a model, and speaks claude's lines while it does.

It is the demo's agent and the tests' agent, and people try prompts and configurations with it for nothing.
`script` says what a script is, `play` plays it, `backend` makes it an agent like the others.
"""

BAD_SCRIPT = 78
"""Exit code for a script that cannot be played (EX_CONFIG). Nothing else ends with it but a script that says so."""
