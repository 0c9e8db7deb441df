"""What becomes of events: a hub logs them and shows them, to people on a terminal or to programs as JSON lines."""
