"""Measurements: allreduce beside its peers, and each part of the data path alone.

| module | role |
| --- | --- |
| setups | set-ups, message sizes, numbers of repetitions |
| contenders, peers, mpi_shim | the compared implementations, and their commands |
| rank_program, session | the program of every rank, and the session that commands it |
| compare, samples, bounds | turns; medians, quartiles and ratios; lower bounds of the time |
| report, plot, machine, progress | tables, JSON, pictures; the machine; a progress bar |
| memory, port, startup, engine, profile | parts of the data path alone; the devices' time by stage |
| network | addresses and links without devices, for processes that run at the same time |
| loss, loss_report | goodput while packets are lost |
"""
