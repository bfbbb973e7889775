"""The responder of RC and UC: requests in order, memory, and what it owes the requester (section 9.7.4)."""
