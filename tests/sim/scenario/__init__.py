"""Tests of `fanin sim` and of the loads that it shares."""
