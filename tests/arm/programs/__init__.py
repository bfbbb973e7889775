"""Programs that `make arm` runs in its namespaces."""
