"""Random schedules: nodes, network, pauses, deaths, leaves and joins, all from one seed."""

import random

from fanin_train.staleness.messages import Rules, by_synchronisation, literal, repaired
from fanin_train.staleness.simulation.scenario import Events, Network, Pauses, Scenario

FORMS = (literal, by_synchronisation, repaired)


def schedule(seed: int) -> tuple[Scenario, Rules]:
    """A small scenario and a form of the protocol. The literal form has neither joins nor leaves."""
    draw = random.Random(seed)
    form = FORMS[seed % len(FORMS)]
    nodes = draw.randint(2, 5)
    lossy = draw.random() < 0.5
    network = Network(
        latency=draw.choice((0.001, 0.02, 0.1)),  # a round trip is shorter than the timers
        jitter=draw.choice((0.0, 0.5, 3.0)),
        loss=draw.choice((0.01, 0.1, 0.3)) if lossy else 0.0,
        duplication=draw.choice((0.0, 0.1)),
        reorders=draw.random() < 0.3,
    )
    slow = (draw.randrange(nodes),) if draw.random() < 0.3 else ()
    pauses = Pauses(draw.choice((0.0, 0.05, 0.3)), factor=draw.choice((2.0, 6.0, 30.0)), slow=slow)
    events = events_of(draw, nodes, form is repaired)
    duration = 3600.0 if form is repaired else 8.0  # it ends before, when all iterations are done
    return Scenario(nodes, 0.1, network, pauses, events, duration, 8, seed), form(draw.randint(0, 4))


def events_of(draw: random.Random, nodes: int, joins: bool) -> Events:
    """At most one node of each kind, and one is left."""
    ranks = list(range(nodes))
    draw.shuffle(ranks)
    deaths, leaves, joining = {}, {}, {}
    if draw.random() < 0.4:
        deaths[ranks.pop()] = draw.uniform(0.0, 2.0)
    if joins and len(ranks) > 1 and draw.random() < 0.2:
        leaves[ranks.pop()] = draw.uniform(0.0, 2.0)
    if joins and len(ranks) > 1 and draw.random() < 0.3:
        joining[ranks.pop()] = draw.uniform(0.1, 1.5)
    return Events(deaths, leaves, joining, detection=draw.choice((0.1, 0.5)))
