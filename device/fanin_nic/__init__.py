"""The firmware model of a collective-offload NIC and switch."""
