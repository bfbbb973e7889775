"""Defective engines: the real one with one thing changed. A check that passes on the real engine must fail on each.

`faults_of_segments`, `faults_of_rings`, `faults_of_jobs`, `faults_of_nodes` and `faults_of_groups` are the list.
`build` makes one package of all of them, in which a number switches one on. `trial` runs the checks in it.
"""
