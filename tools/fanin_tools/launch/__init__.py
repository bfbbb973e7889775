"""A job: ranks placed on the nodes of a fabric, what they are told of it, and their processes."""

DEFAULT_JOB = "job"  # what a crew calls its job where it has only one
