"""The tables of the arena, their accessors, and what follows from them alone."""
