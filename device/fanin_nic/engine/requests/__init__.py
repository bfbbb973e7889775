"""Work requests: posting, reading the data of the ranks, queries."""
