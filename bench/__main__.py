"""`just bench`: measure everything, print the table."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from bench import agent_output, commands, hostile, rendering, spawn, watch
from bench.measure import Row

MEASUREMENTS: dict[str, Callable[[int], list[Row]]] = {
    "commands": commands.rows,
    "rendering": rendering.rows,
    "hostile": hostile.rows,
    "watch": watch.rows,
    "spawn": spawn.rows,
    "output": agent_output.rows,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="just bench", description="What cuggino costs, as ratios measured here and now."
    )
    parser.add_argument("only", nargs="*", metavar="WHAT", help=f"which of {', '.join(MEASUREMENTS)}; all by default")
    parser.add_argument("--runs", type=int, default=5, help="number of runs for each median (5)")
    arguments = parser.parse_args()
    if unknown := set(arguments.only) - MEASUREMENTS.keys():
        parser.error(f"not measured here: {', '.join(sorted(unknown))}")
    rows = [row for name in arguments.only or MEASUREMENTS for row in MEASUREMENTS[name](arguments.runs)]
    print("| what | against | measured | goal | |")
    print("|---|---|---|---|---|")
    for row in rows:
        print(f"| {row.what} | {row.against} | {row.figure} | {row.goal} | {'met' if row.met else 'not met'} |")


if __name__ == "__main__":
    main()
