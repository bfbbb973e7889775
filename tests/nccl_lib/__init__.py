"""The plugin for NCCL, called as NCCL calls it, on the NICs of a fabric."""
