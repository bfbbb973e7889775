"""Packets and segments of running devices, as they report them (fanin_wire/tap.py)."""
