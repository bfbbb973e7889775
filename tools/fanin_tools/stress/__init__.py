"""Long-running checks: real faults, hostile input, the matrix of collectives, and the soak run that repeats them."""
