"""Tests of bounded staleness."""
