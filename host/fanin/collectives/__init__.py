"""The collectives: their arguments, and their blocking, non-blocking and persistent forms."""
