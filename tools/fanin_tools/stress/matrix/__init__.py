"""`fanin matrix`: every collective over every shape of network, with every operation, type and size, against numpy."""
