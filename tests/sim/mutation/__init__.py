"""Defective engines: the real one with one change. A check that passes on the real engine must fail on each.

`faults_of_*.diff` are the list. `build` makes one package of all of them, in which a number selects one. `trial` runs
the checks in it.
"""
