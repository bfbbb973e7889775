"""The simulator of ordinary RDMA traffic."""
