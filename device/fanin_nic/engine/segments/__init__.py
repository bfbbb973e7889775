"""A segment: its contributions, its partial, its result, and the timers of what was sent."""
