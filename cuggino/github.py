"""The person's own `gh`, asked for one thing at a time."""
