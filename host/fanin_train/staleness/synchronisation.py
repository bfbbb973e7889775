"""The synchronisation of the global order: steps a1 to a6 of the document, for one node.

`Rules` decides where the forms of the protocol differ. The text ends within a6, which is completed here: the global
order is the smallest that a node has finished, with the parameters of that node, the lowest rank among equals.
"""

from collections.abc import Callable
from typing import NamedTuple

from fanin_train.staleness.messages import (
    Abort,
    Action,
    Commit,
    Epoch,
    Message,
    Refusal,
    Reply,
    Request,
    Rules,
    Send,
    SetTimer,
    Snapshot,
    Timer,
)


class Report(NamedTuple):
    finished: int
    snapshot: Snapshot


class Synchronisation:
    """One node's part in all synchronisations.

    others: the other members; the node updates it. random: uniform in [0, 1). report: of this node, now.
    do: takes actions. learn: takes the rank of the slowest, the global order and its snapshot.
    free: this node no longer waits for another's. is_waiting: whether it is at the bound.
    """

    def __init__(
        self,
        rank: int,
        others: set[int],
        rules: Rules,
        random: Callable[[], float],
        report: Callable[[], Report],
        do: Callable[[Action], None],
        learn: Callable[[int, int, Snapshot], None],
        free: Callable[[], None],
        is_waiting: Callable[[], bool],
    ) -> None:
        self._rank, self._others, self._rules, self._random = rank, others, rules, random
        self._report, self._do, self._learn, self._free, self._is_waiting = report, do, learn, free, is_waiting
        self.serving: Epoch | None = None  # V_sync of the document: whose synchronisation this node is in
        self.own: Epoch | None = None
        self.wanted = False  # begin one as soon as allowed
        self.pausing = False  # step a5
        self.completed = self.refused = 0
        self._number = 0
        self._replies: dict[int, Report] = {}
        self._generations = dict.fromkeys(Timer, 0)
        self._latest: dict[int, int] = {}  # initiator -> its last epoch

    def begin(self) -> None:
        """Steps a2 and a3: begin one, or wait until that of another is over."""
        self.wanted = True
        if self.serving is None and self.own is None and not self.pausing:
            self._request()

    def forget(self) -> None:
        """The node has got the order in another way. Its own synchronisation goes on."""
        self.wanted = False

    def set_timer(self, timer: Timer, delay: float) -> None:
        self._generations[timer] += 1
        self._do(SetTimer(timer, self._generations[timer], delay))

    def is_current(self, timer: Timer, generation: int) -> bool:
        """Whether an expired timer has not been restarted or stopped."""
        return generation == self._generations[timer]

    def _stop(self, timer: Timer) -> None:
        self._generations[timer] += 1

    def _tell_others(self, message: Message) -> None:
        for other in sorted(self._others):
            self._do(Send(other, message))

    def _request(self) -> None:
        self._number += 1
        self.own = Epoch(self._number, self._rank)
        mine = self._report()
        self._replies = {self._rank: mine}
        if self._rules.epochs:
            self.set_timer(Timer.REPLIES, self._rules.timeout)
        self._tell_others(Request(self.own, *mine))
        self._finish_if_complete()

    def _finish_if_complete(self) -> None:
        """Step a6."""
        if self.own is None or not self._others <= self._replies.keys():
            return
        epoch, self.own, self.wanted = self.own, None, False
        self._stop(Timer.REPLIES)
        self.completed += 1
        members = {self._rank, *self._others}
        slowest = min(members, key=lambda rank: (self._replies[rank].finished, rank))
        global_order, snapshot = self._replies[slowest]
        if self._rules.commit:
            self._tell_others(Commit(epoch, slowest, global_order, snapshot))
        self._learn(slowest, global_order, snapshot)
        if self._is_waiting():  # the slowest is still too far behind
            self.wanted = True
            self.pause()

    def _give_up(self) -> None:
        """Step a5: pause, then begin anew."""
        epoch, self.own = self.own, None
        self._stop(Timer.REPLIES)
        if self._rules.abort and epoch is not None:
            self._tell_others(Abort(epoch))
        self.pause()

    def pause(self) -> None:
        """Begin again after T."""
        self.pausing = True
        share = 0.5 + self._random() if self._rules.jitter else 1.0
        self.set_timer(Timer.RETRY, self._rules.retry * share)

    def receive(self, source: int, message: Request | Reply | Refusal | Abort | Commit) -> None:
        """A message of another member."""
        match message:
            case Request():
                self._receive_request(source, message)
            case Reply() if self._is_mine(message.epoch):
                self._replies[source] = Report(message.finished, message.snapshot)
                self._finish_if_complete()
            case Refusal() if self._is_mine(message.epoch):
                self.refused += 1
                self._give_up()
            case Abort():
                self._release(message.epoch)
            case Commit():
                self._learn(message.slowest, message.global_order, message.snapshot)
                self._release(message.epoch)

    def _is_mine(self, epoch: Epoch) -> bool:
        return self.own is not None and (epoch == self.own or not self._rules.epochs)

    def _receive_request(self, source: int, request: Request) -> None:
        """Steps a1 and a4."""
        if self._rules.epochs and request.epoch.number <= self._latest.get(source, 0):
            return  # overtaken by a later one, or by its own end
        self._latest[source] = request.epoch.number
        competitors = [] if self.serving is None or self.serving.initiator == source else [self.serving.initiator]
        if self.own is not None and self._rules.initiator_refuses:
            competitors.append(self._rank)
        if competitors and not (self._rules.priority and source < min(competitors)):
            self._do(Send(source, Refusal(request.epoch)))
            return
        if competitors and self.own is not None:
            self._give_up()
        self.serving = request.epoch
        self.set_timer(Timer.SERVING, self._rules.timeout)
        self._do(Send(source, Reply(request.epoch, *self._report())))

    def _release(self, epoch: Epoch) -> None:
        if self._rules.epochs:
            self._latest[epoch.initiator] = max(epoch.number, self._latest.get(epoch.initiator, 0))
        if self.serving == epoch:
            self._be_free()

    def _be_free(self) -> None:
        self.serving = None
        self._stop(Timer.SERVING)
        self._free()
        if self.wanted:
            self.begin()

    def expired(self, timer: Timer) -> None:
        match timer:
            case Timer.SERVING:
                self._be_free()
            case Timer.REPLIES if self.own is not None:
                self._give_up()
            case Timer.RETRY:
                self.pausing = False
                if self.wanted:
                    self.begin()

    def lose(self, rank: int) -> None:
        self._replies.pop(rank, None)
        self._finish_if_complete()
        if self.serving is not None and self.serving.initiator == rank:
            self._be_free()
