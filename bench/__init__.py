"""What cuggino costs, against what cannot be avoided.

Each figure is a ratio of two things measured in one run on one machine, so that it can be compared
between machines. `just bench` prints the table; nothing asserts it.
"""
