"""Queue pairs: their states, their numbers, and their end in error."""
