"""The demonstration: every collective over every route, verified, with the traffic of each link."""
