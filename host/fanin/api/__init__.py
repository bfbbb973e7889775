"""What programs use: the communicator."""
