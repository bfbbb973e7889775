"""A driver of the engine without sockets: devices, links and ranks in virtual time, from one seed."""
