"""Execution control: work requests, leases, and the membership of jobs."""
