"""The requester: from work requests to packets, and from answers to completions (sections 9.7.3, 9.7.5, 9.7.6)."""
