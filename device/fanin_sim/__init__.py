"""The simulator: the device's engine in virtual time, without sockets. Everything random follows from a seed.

`fabric` simulates devices and links, `jobs` the ranks that use them, `scenario` one collective on a large fabric.
`model_check` searches all states of a small fabric. `fuzz` runs random schedules with faults.
"""
