"""Directories in which agents work apart from the person's own tree; what of their work may be integrated."""
