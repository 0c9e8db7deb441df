"""Benchmarks: what cuggino costs, compared with the least possible cost.

Each figure is a ratio of two measurements in one run on one machine, so that it can be compared between machines.
`just bench` prints the table; no test asserts it.
"""
