"""Which GPUs and NICs the workers of a job get: founding document 002."""
