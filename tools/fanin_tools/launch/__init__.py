"""Jobs: the placement of ranks on the nodes of a fabric, the description of the job, and the processes."""

DEFAULT_JOB = "job"  # name of the only job of a worker pool
