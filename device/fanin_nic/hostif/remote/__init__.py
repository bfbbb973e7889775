"""Clients on another host: their rings are filled, and their memory is reached, by RDMA."""
