"""Children: started in a nursery, followed while they print, stopped with all that they started.

`keeper` is the small program that each child runs under: its own end means that nothing of the child's
tree is left. `children` starts keepers and speaks to them, `follow` reads what a child prints, `owner`
tells whether a recorded process is still the same one, and `sweep` ends what survived its keeper.
"""
