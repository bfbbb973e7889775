"""A fabric: NICs, switches and the links between them on this machine, from its description to its removal."""
