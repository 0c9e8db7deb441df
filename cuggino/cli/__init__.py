"""A file a command: parse, call, nothing else."""
