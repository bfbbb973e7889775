"""The tables of the transport, their accessors, the actions, and what follows from them alone."""
