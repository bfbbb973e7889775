"""Timers: probes, repetitions, deadlines, keep-alives and the loss of a neighbour."""
