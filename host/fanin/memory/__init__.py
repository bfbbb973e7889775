"""Arrays and buffers of programs as memory for the device."""
