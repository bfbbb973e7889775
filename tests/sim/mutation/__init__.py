"""Broken engines: the real one with one thing changed. Each must be caught, by a check that passes on the real one.

`faults_of_segments`, `faults_of_rings` and `faults_of_jobs` are the list, `build` makes one package of all of them,
in which a number says which is switched on, and `trial` runs the checks in it.
"""
