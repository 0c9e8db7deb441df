"""Child processes: started in a nursery, followed while they print, stopped with everything that they started.

`keeper` is the small program that each child runs under; once it exits, nothing of the child's process tree is left.
`children` starts and controls keepers, `terminal` runs a child that needs the person's terminal, with `guard` in the
keeper's place, `follow` reads what a child prints, and `leftovers` recognizes and kills what survived its keeper.
"""
