"""The soak run: simulation, hostile input and real faults in turns, for any time, and one table at the end."""
