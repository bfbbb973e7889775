"""Measurements: allreduce beside its peers, and each part of the data path alone.

| module | role |
| --- | --- |
| setups | what is compared: set-ups, sizes, how often |
| contenders, peers, launch_agent | who is compared, and how the processes of each are started |
| shim | an MPI with our devices below it, and whether it used them |
| thresholds | which collectives of an MPI are faster on the devices |
| rank_program, session | the program that every rank of every contender runs, and who tells it what to do |
| compare, samples, bounds | turn by turn; medians, quartiles and ratios; what no implementation can beat |
| progress | how far it is |
| report, plot, machine | tables, JSON, pictures; what the figures were taken on |
| memory, port, floor, start, engine | parts of the path alone |
| floor_tree, floor_node | the floor over hosts, and of one node |
| memory_kernels, port_kernels, floor_kernels, floor_tree_kernels, floor_node_kernels | their compiled loops |
| network | addresses and links without devices, and processes that run there together, for port, floor and engine |
| profile | where the devices' time goes, stage by stage |
| loss, loss_report | goodput while packets are lost |
"""
