"""Jobs: their members, and their path through the fabric."""

from fanin.job.description import ENVIRONMENT_VARIABLE, START_REMEDY, Job, JobNode, environment

__all__ = ["ENVIRONMENT_VARIABLE", "START_REMEDY", "Job", "JobNode", "environment"]
