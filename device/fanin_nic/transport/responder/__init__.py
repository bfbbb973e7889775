"""The responder of RC and UC: requests in their order, memory, and what is owed to the requester (section 9.7.4)."""
