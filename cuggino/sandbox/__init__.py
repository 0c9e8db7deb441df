"""Folders in which agents work apart from the person's own tree, and the way of their work home."""
