"""Tests of the engine alone: events in, actions out."""
