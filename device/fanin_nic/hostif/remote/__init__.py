"""Clients on another host: their rings are filled, and their memory is reached, by RDMA.

Record 0108 (docs/decisions): why messages say what is in the control region, and what else was tried.
"""
