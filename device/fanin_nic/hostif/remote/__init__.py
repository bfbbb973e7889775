"""Clients on another host: RDMA fills their rings and reaches their memory. Record 0108: why messages say what is in
the control region, and what else was tried."""
