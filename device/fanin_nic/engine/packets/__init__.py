"""Packets of other devices: parsed, checked, and handled by opcode."""
