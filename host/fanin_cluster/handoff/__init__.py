"""Data from one server to all GPUs of another in one copy over the network: founding document 000."""
