"""Work requests: how they are posted, how the data of the ranks are read, how they are queried."""
