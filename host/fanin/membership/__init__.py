"""One rank in one job: joining, failures, leaving, and the agreement of survivors."""
