"""Plan → implement → review: the loop, its session files, checks, commits and retries."""
