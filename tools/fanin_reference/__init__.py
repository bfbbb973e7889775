"""A switch in plain Python, written from SPEC.md alone: slow, and without any code of Fanin's devices.

Record 0077 (docs/decisions) says why there is a second switch.
"""
