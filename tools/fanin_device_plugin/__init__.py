"""The device plugin for Kubernetes: it gives containers pairs of a GPU and a virtual function of its NIC."""
