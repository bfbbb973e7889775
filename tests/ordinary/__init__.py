"""Ordinary RDMA traffic through running devices: `fanin.verbs` on both sides, real sockets between."""
