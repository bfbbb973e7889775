"""Tests of fanin_train.replacement."""
