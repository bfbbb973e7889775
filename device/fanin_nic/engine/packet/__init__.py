"""Parse and encapsulate: packets to events of the engine, and back."""
