"""Jobs: who takes part, by which way through the fabric, and what follows from it for one rank."""

from fanin.job.description import ENVIRONMENT_VARIABLE, REPRODUCIBLE, START_REMEDY, Job, environment
from fanin.job.node import JobNode

__all__ = ["ENVIRONMENT_VARIABLE", "REPRODUCIBLE", "START_REMEDY", "Job", "JobNode", "environment"]
