"""A job: ranks placed on the nodes of a fabric, what they are told of it, and their processes."""
