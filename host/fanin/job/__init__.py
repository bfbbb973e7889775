"""Jobs: their members, their way through the fabric, and the jobs that are made from them."""

from fanin.job.description import ENVIRONMENT_VARIABLE, REPRODUCIBLE, START_REMEDY, Job, environment
from fanin.job.node import JobNode

__all__ = ["ENVIRONMENT_VARIABLE", "REPRODUCIBLE", "START_REMEDY", "Job", "JobNode", "environment"]
