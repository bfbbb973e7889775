"""Status update: completion queue entries and the answers to control requests (step S6)."""
