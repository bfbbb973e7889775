"""What compiled device code is made of: memory, atomics, records at addresses, the header codec, libc."""
