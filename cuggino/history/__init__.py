"""What goes on in a project and what has happened there, read from its files. Nothing here writes."""
