"""Replacement of failed nodes: founding document 004. [n] in this package is a paragraph of it."""
