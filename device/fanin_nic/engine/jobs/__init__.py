"""Jobs: how members join, which slots a job leases, how members leave, how a job is aborted."""
