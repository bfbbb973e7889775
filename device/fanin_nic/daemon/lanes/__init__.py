"""What a device of several lanes has beside its lanes: requests are cut for them, answers put together, threads run.

Each lane is an engine with a port and a thread of its own. It sees an ordinary host: rings that `split` fills and
`merge` empties, both in the loop of lane 0.
"""
