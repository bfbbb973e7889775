"""Tests of many devices in virtual time, and of all that can happen to a few."""
