"""`fanin soak`: simulation, hostile input and real faults in turns, as long as one likes; one table at the end."""
