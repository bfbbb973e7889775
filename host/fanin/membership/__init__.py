"""One rank in one job: joining, failures, leaving, and who is left after a failure."""
