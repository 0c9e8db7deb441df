"""A pull request, watched until it is green, merged or closed."""
