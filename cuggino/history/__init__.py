"""What is running in a project and what has happened there, read from its files. Nothing here writes."""
