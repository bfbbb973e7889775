"""Measurements: allreduce beside its peers, and each part of the data path alone.

| module | role |
| --- | --- |
| setups | set-ups, message sizes, numbers of repetitions |
| contenders, peers | the implementations that are compared, and the commands that start them |
| mpi_shim | an MPI with the shim, and whether it offloaded its calls |
| rank_program, session | the program of every rank of every contender, and the session that commands it |
| compare, samples, bounds | the turns; medians, quartiles and ratios; lower bounds of the time |
| progress | the progress of a measurement |
| report, plot, machine | tables, JSON, pictures; the machine of a measurement |
| memory, port, startup, engine | parts of the data path alone |
| memory_kernels, port_kernels | compiled loops |
| network | addresses and links without devices, and processes that run there at the same time |
| profile | the time of the devices, stage by stage |
| loss, loss_report | goodput while packets are lost |
"""
