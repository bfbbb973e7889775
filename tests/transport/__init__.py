"""The transport of ordinary RDMA traffic: RC, UC and UD."""
