"""Packets that arrive: checks, queue pair, handler."""
