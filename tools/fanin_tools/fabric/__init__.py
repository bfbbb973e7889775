"""Fabrics on this machine: NICs, switches and links, from their description to their removal."""
