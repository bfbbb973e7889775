"""Tests of simulated jobs: results, loss, recovery."""
