"""Tests of the model checker, and the models for spin."""
