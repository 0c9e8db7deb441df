"""Watch a pull request until it is green, merged or closed."""
