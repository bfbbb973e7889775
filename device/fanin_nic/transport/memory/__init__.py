"""Memory: regions with keys and rights, and the pieces that a message is gathered from and scattered to."""
