"""A sample project that a person can watch cuggino work off, with no key and no network."""
