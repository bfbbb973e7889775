"""Tests of the schedule fuzzer."""
