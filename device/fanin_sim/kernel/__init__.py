"""The kernel of the schedule fuzzers: events in the order of time, random numbers, packets, traces, and their tables.

A fuzzer adds devices, faults and an oracle: `fanin_sim.fuzz` for collectives, `fanin_sim.rdma` for ordinary RDMA
traffic.
"""
