"""The interface of programs: the communicator."""
