"""Tests of `fanin sim`, and of the load of `fanin bench engine`."""
