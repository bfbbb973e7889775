"""Tests of the driver in C: its tables, its header, and programs that use nothing else."""
