"""The requester: from work requests to packets, and from acknowledgements and responses to completions (section 9.7.3,
9.7.5, 9.7.6)."""
