"""Hostile packets against the transport of ordinary RDMA traffic."""
