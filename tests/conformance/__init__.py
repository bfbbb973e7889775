"""Tests of the conformance suite: it passes what is right, and fails what is wrong."""
