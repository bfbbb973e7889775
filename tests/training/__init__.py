"""Tests of fanin_train."""
