"""Tests of the conformance suite: it passes right devices, and fails wrong ones."""
