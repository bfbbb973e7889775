/* The ring, from SPEC.md sections 6 and 9: every hop is acknowledged, and what is not is asked about.

   | message      | way  | a        | b               | c               | d                               |
   | ------------ | ---- | -------- | --------------- | --------------- | ------------------------------- |
   | CONTRIBUTION | next | position | data of which   | whose data      | nodes that still have to add    |
   | RESULT       | next | position | data of which   | whose data      | nodes that still have to take it |
   | PROBE        | next | position |                 |                 |                                 |
   | ACK          | back | base     | partials stored | results stored  | the ACK answers a PROBE         |

   `link` is the receiver. Data are as in tree.pml. The maps of an ACK have a bit for each position, from the base on.

   NODES       2 or 3
   W           the window; N = 2 W slots
   POSITIONS   length of the stream

   Broken variants: FREE_ON_RESULT, RESULT_TAKEN_FOR_STORED; see where they are used. */

mtype = { CONTRIBUTION, RESULT, PROBE, ACK };

#ifndef NODES
#define NODES 2
#endif
#ifndef W
#define W 1
#endif
#ifndef POSITIONS
#define POSITIONS 3
#endif
#define N (2 * W)
#define PEERS NODES
#define RECEIVER link
#define ALL_NODES (BIT(NODES) - 1)
#define ALL_PEERS ALL_NODES
#define DIGIT(node) (1 << (2 * (node)))
#define EVERYBODY (NODES == 2 -> 5 : 21) /* the sum in which each node is once */
/* Positions begin at N, so that slot s can start with position s, done. */
#define FIRST N
#define LAST (FIRST + POSITIONS - 1)
#define PLACE(p) BIT((p) - FIRST)
#define ALL_HELD (BIT(POSITIONS) - 1)
#define finished (held[0] == ALL_HELD && held[1] == ALL_HELD && held[NODES - 1] == ALL_HELD && unsettled == 0)

byte posted[NODES]; /* positions to which the node has added its own data, or may as soon as the partial is here */
byte held[NODES];   /* bitmap of the positions whose result its ranks have */
byte unsettled;     /* packets sent and not acknowledged, of all nodes */

#include "network.pml"

#define DONE 0
#define OPEN 1
#define LOCAL 2
#define FINAL 3

typedef Slot {
    byte position;
    byte state;
    bit own_missing;
    bit previous_missing;
    bit partial_unacked;
    bit result_unacked;
    byte nodes; /* that still have to add */
    byte origin;
    byte sum
};
Slot slot[NODES * N];
#define S slot[me * N + (p) % N]
#define PREVIOUS ((me + NODES - 1) % NODES)
#define FOLLOWING ((me + 1) % NODES)
#define STARTS ((p - FIRST + 1) % NODES == me) /* 9: position p starts here */

/* The slot rule (6). */
#define STALE (p < S.position)
#define CURRENT (p == S.position)
#define REPLACE (p == S.position + N && (S.state == DONE || S.state == FINAL))

inline acknowledged_partial() {
    unsettled = unsettled - S.partial_unacked;
    S.partial_unacked = 0
}

inline acknowledged_result() {
    unsettled = unsettled - S.result_unacked;
    S.result_unacked = 0
}

/* 9, slot rule of a ring: done with the result, and when all that was sent is acknowledged. */
inline settle() {
    if
#ifdef FREE_ON_RESULT /* broken: the rule of a tree; what is lost behind is never sent again */
    :: S.state == FINAL -> acknowledged_partial(); acknowledged_result(); S.state = DONE
#else
    :: S.state == FINAL && !S.partial_unacked && !S.result_unacked -> S.state = DONE
#endif
    :: else
    fi
}

/* 6: the slot takes position p. */
inline claim() {
    assert(p > S.position && S.state == DONE && !S.partial_unacked && !S.result_unacked); /* I3 */
    S.position = p; S.state = OPEN; S.own_missing = 1; S.origin = p; S.sum = 0;
    if
    :: STARTS -> S.previous_missing = 0; S.nodes = ALL_NODES
    :: else -> S.previous_missing = 1; S.nodes = 0
    fi
}

/* The result is here: to the ranks, and on unless all have it (9, items 3 and 4). x: nodes that had not taken it. */
inline take_result() {
    assert(S.origin == p && S.sum == EVERYBODY); /* I1 */
    held[me] = held[me] | PLACE(p);
    S.state = FINAL;
    x = x & ~BIT(me);
    if
    :: x -> S.nodes = x; S.result_unacked = 1; unsettled++; send(RESULT, FOLLOWING, p, S.origin, S.sum, x)
    :: else
    fi;
    settle();
    x = 0
}

/* 9, items 2 and 3: a share was added. */
inline proceed() {
    if
    :: S.own_missing || S.previous_missing -> skip
    :: else ->
        S.nodes = S.nodes & ~BIT(me);
        if
        :: S.nodes ->
            S.state = LOCAL; S.partial_unacked = 1; unsettled++;
            send(CONTRIBUTION, FOLLOWING, p, S.origin, S.sum, S.nodes)
        :: else -> x = ALL_NODES; take_result()
        fi
    fi
}

/* 9, acknowledgement: state, not history. x: the ACK answers a PROBE. The position p is the base. */
inline acknowledge(probed) {
    x = p;
    do
    :: p <= LAST ->
        if
        :: S.position > p || (S.position == p && (S.state == DONE || S.state == FINAL)) ->
            b = b | PLACE(p); c = c | PLACE(p)
        :: S.position == p && S.state != DONE && S.state != FINAL && !S.previous_missing ->
            b = b | PLACE(p);
#ifdef RESULT_TAKEN_FOR_STORED
            c = c | PLACE(p) /* broken: the map of the results shows a partial */
#endif
        :: else
        fi;
        p++
    :: else -> break
    od;
    p = x; x = 0;
    send(ACK, PREVIOUS, p, b, c, probed)
}

inline contribution() {
    if
    :: STALE -> b = 0; c = 0; acknowledge(0)
    :: CURRENT || REPLACE ->
        if
        :: REPLACE -> claim()
        :: else
        fi;
        if
        :: S.previous_missing ->
            assert(S.origin == b); /* I1 */
            S.sum = S.sum + c; S.nodes = d; S.previous_missing = 0;
            proceed()
        :: else /* a duplicate */
        fi;
        b = 0; c = 0; acknowledge(0)
    :: else -> skip /* a violation: not stored, so not acknowledged */
    fi
}

inline result() {
    if
    :: CURRENT && S.state == LOCAL ->
        acknowledged_partial(); /* the next node's share is in it */
        S.origin = b; S.sum = c;
        x = d;
        take_result();
        b = 0; c = 0; acknowledge(0)
    :: STALE || (CURRENT && S.state != LOCAL) -> b = 0; c = 0; acknowledge(0)
    :: else -> skip
    fi
}

/* 9, loss: what was sent and the ACK lacks is sent again, if the ACK answers a PROBE. */
inline acknowledgement() {
    x = FIRST;
    p = FIRST;
    do
    :: p <= LAST ->
        if
        :: S.position == p ->
            if
            :: b & PLACE(p) -> acknowledged_partial()
            :: else
            fi;
            if
            :: c & PLACE(p) -> acknowledged_result()
            :: else
            fi;
            settle()
        :: else
        fi;
        p++
    :: else -> break
    od;
    p = a; x = 0;
    if
    :: d && S.position == p && S.partial_unacked ->
        send(CONTRIBUTION, FOLLOWING, p, S.origin, S.sum, S.nodes)
    :: else
    fi;
    if
    :: d && S.position == p && S.result_unacked -> send(RESULT, FOLLOWING, p, S.origin, S.sum, S.nodes)
    :: else
    fi
}

/* 9, loss: the lowest position that waits for an ACK is asked about. */
inline ask() {
    p = FIRST;
    do
    :: p <= LAST && !(S.position == p && (S.partial_unacked || S.result_unacked)) -> p++
    :: else -> break
    od;
    if
    :: p <= LAST -> send(PROBE, FOLLOWING, p, 0, 0, 0)
    :: else
    fi;
    p = 0
}

#define NEXT (FIRST + posted[me])
#define BEFORE slot[me * N + (NEXT - W) % N] /* the slot of the position one window before */
#define MAY_POST (NEXT <= LAST && (BEFORE.position > NEXT - W || (BEFORE.position == NEXT - W && BEFORE.state == DONE)))
#define WAITS (posted[me] > 0)

proctype Node(byte me) {
    PACKET;
    byte p, x;
    do
    :: atomic { /* the rank posts, in its own time */
        MAY_POST ->
        p = NEXT;
        posted[me]++;
        if
        :: REPLACE -> claim()
        :: else -> assert(CURRENT && S.state == OPEN)
        fi;
        S.sum = S.sum + DIGIT(me);
        S.own_missing = 0;
        proceed();
        p = 0
    }
    :: atomic { due & BIT(me) -> due = due & ~BIT(me); ask() }
    :: atomic { early > 0 && WAITS -> early--; ask() }
    :: atomic {
        wire[me]?type, link, a, b, c, d ->
        p = a;
        if
        :: type == CONTRIBUTION -> contribution()
        :: type == RESULT -> result()
        :: type == PROBE -> acknowledge(1)
        :: type == ACK -> acknowledgement()
        fi;
        FORGET; p = 0; x = 0
    }
    od
}

init {
    byte x;
    atomic {
        do
        :: x < NODES * N -> slot[x].position = x % N; x++
        :: else -> break
        od;
        x = 0;
        do
        :: x < NODES -> run Node(x); x++
        :: else -> break
        od;
        x = 0;
        run Network();
        run Clock()
    }
}

ltl ends { <> finished }
