"""rxe and a NIC as a running daemon, on one network of the host: a guest on the bridge of a fabric's switch."""
