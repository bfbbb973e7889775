"""The list of mutants."""

from tests.sim.mutation import (
    faults_of_data_ahead,
    faults_of_groups,
    faults_of_jobs,
    faults_of_nodes,
    faults_of_rings,
    faults_of_segments,
    faults_of_transport,
)

MUTANTS = (
    *faults_of_segments.FAULTS,
    *faults_of_rings.FAULTS,
    *faults_of_jobs.FAULTS,
    *faults_of_nodes.FAULTS,
    *faults_of_groups.FAULTS,
    *faults_of_data_ahead.FAULTS,
    *faults_of_transport.FAULTS,
)
