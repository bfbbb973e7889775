"""The transport of ordinary RDMA traffic, judged by the Linux kernel's own RoCE (rxe) in a small virtual machine."""
