"""The offload engine: a pure state machine over one block of memory. Events in, actions out; no clock, no I/O.

Its folders and files are layers. Each imports only those below it:

| layer | holds |
| --- | --- |
| `engine`, `events` | the entry: the engine as an object, and one compiled function for each event |
| `liveness` | timers: probes, keep-alives, deadlines, ageing |
| `requests` | work requests of the ranks: checked, read, queried |
| `packets` | packets of other devices: checked, and passed to their handlers |
| `segments` | a segment from its first contribution to its result |
| `jobs` | jobs: joining, leases, leaving, abort |
| `output` | the actions: packets, completions |
| `slots` | the slots that hold segments, and their arithmetic |
| `records` | the tables of the arena and their accessors; functions that are called by address |
| `kernels` | the vector unit |
"""
