"""`fanin demo`: a verified allreduce over every route, with what went over each link."""
