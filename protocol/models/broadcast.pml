/* Data that go ahead of the result in a tree, from SPEC.md, 7.5: one switch over NICs, or two levels.

   | message      | way  | a        | b             |
   | ------------ | ---- | -------- | ------------- |
   | CONTRIBUTION | up   | position | data of which |
   | EARLY_DATA   | down | position | data of which |
   | RESULT       | down | position | data of which |
   | PROBE        | up   | position |               |
   | NEED, WAIT   | down | position |               |

   `link` is the number of the child, in both directions. Data are the position that they belong to; 0 are none.
   EARLY_DATA is a RESULT with the flag EARLY.

   Every position is of class ONE: one NIC brings the data, every other NIC wants them. It is NIC ROOT, or, with
   ROOT_CHANGES, the first NIC at odd positions and the last one at even positions. That the data of a position can not
   be mixed with others is the matter of `tree.pml`.

   With FIRST_RESULT_LOST, the packet that may be lost is a RESULT of the first position.

   Topologies and window: `topology.pml`.

   Broken variants: SMALL_LEASE, DATA_COUNT_AS_RESULT, RESULT_ENDS, SILENT_WITH_RESULT, RESULT_GOES_DOWN,
   REPLACED_UNPROVEN; see where they are used. */

mtype = { CONTRIBUTION, EARLY_DATA, RESULT, PROBE, NEED, WAIT };

#include "topology.pml"

#ifndef ROOT
#define ROOT DEVICES
#endif
#ifdef ROOT_CHANGES
#define ROOT_OF(p) ((p) & 1 -> DEVICES : PEERS - 1)
#else
#define ROOT_OF(p) ROOT
#endif
#ifdef FIRST_RESULT_LOST
#define MAY_BE_LOST (type == RESULT && a == FIRST)
#endif

byte sent[PEERS];     /* of NICs: how many positions have been sent */
byte data[PEERS];     /* of NICs: bitmap of the positions whose data are here */
byte answered[PEERS]; /* of NICs: bitmap of the positions whose RESULT is here */
byte held[PEERS];     /* of NICs: bitmap of the positions that are done; the window hangs on it */

#include "network.pml"

#define OPEN 0
#define LOCAL 1
#define FINAL 2

typedef Slot {
    byte position;
    byte state;
    byte missing; /* children */
    byte origin;  /* the position whose data are here */
    bit below;    /* a child has brought them */
    bit ahead;    /* they were sent ahead */
    bit up;       /* the contribution was sent */
    bit answer    /* the RESULT is here */
};
Slot slot[DEVICES * N];
#define S slot[me * N + (p) % N]

/* Verdicts of the slot rule (6). */
#define STALE (p < S.position)
#define CURRENT (p == S.position)
#define REPLACE (p == S.position + N && S.state == FINAL)

inline claim() {
    S.position = p; S.state = OPEN; S.missing = CHILDREN(me);
    S.origin = 0; S.below = 0; S.ahead = 0; S.up = 0; S.answer = 0
}

inline send_to_children(what, content) {
    x = 1;
    do
    :: x < PEERS ->
        if
        :: CHILDREN(me) & BIT(x) -> y = content; send(what, x, p, y, 0, 0)
        :: else
        fi;
        x++
    :: else -> break
    od
}

/* Data that came from above do not go up again. */
inline send_up() {
    S.up = 1; y = (S.below -> S.origin : 0); send(CONTRIBUTION, me, p, y, 0, 0)
}

/* 7.5, item 2: once, and nobody repeats it. */
inline send_ahead() {
    if
    :: S.origin && !S.ahead -> S.ahead = 1; send_to_children(EARLY_DATA, S.origin)
    :: else
    fi
}

/* 7.5, item 4: without the data where they went ahead. */
inline distribute() {
    S.state = FINAL;
    if
    :: S.ahead -> send_to_children(RESULT, 0)
    :: else -> send_to_children(RESULT, S.origin)
    fi
}

inline complete() {
    if
    :: me == 0 -> assert(S.origin); distribute()
    :: me != 0 && S.answer -> distribute()
    :: me != 0 && !S.answer ->
        S.state = LOCAL;
        if
        :: !S.up -> send_up()
        :: else
        fi;
        send_ahead()
    fi
}

/* 7.1, item 2: a child whose bit is in sends again, or asks. The answer has the data. */
inline repeat() {
    if
    :: S.state == FINAL -> send(RESULT, link, p, S.origin, 0, 0)
    :: S.state == LOCAL && link == LOWEST(me) -> send(PROBE, me, p, 0, 0, 0)
    :: else
    fi
}

inline contribution() {
    if
    :: STALE -> skip
    :: CURRENT && !(S.missing & BIT(link)) -> repeat()
    :: (CURRENT && (S.missing & BIT(link))) || REPLACE ->
        if
        :: REPLACE -> claim()
        :: else
        fi;
        if
        :: b -> assert(b == p); S.origin = b; S.below = 1
        :: else
        fi;
        S.missing = S.missing & ~BIT(link);
        if
        :: S.missing == 0 -> complete()
        :: else ->
            if
            :: me != 0 && S.below && !S.up -> send_up() /* 7.1, item 7 */
            :: else
            fi;
            send_ahead()
        fi
    :: else -> assert(0) /* a violation of the slot rule */
    fi
}

/* 7.5, item 3: all children have contributed to a position, or to a later one. */
#define S_OF(q) slot[me * N + (q) % N]
#define CONTRIBUTED(q) (S_OF(q).position > (q) || (S_OF(q).position == (q) && S_OF(q).state != OPEN))
#ifndef REPLACED_UNPROVEN
#define HELD_BELOW (S.position < FIRST || CONTRIBUTED(S.position + W))
#else
#define HELD_BELOW 1 /* broken: this device may have contributed before its children */
#endif

/* 7.5, item 3, at a device in between. */
inline early_data() {
    if
    :: STALE -> skip
    :: CURRENT && (S.state == FINAL || S.origin) -> skip
    :: REPLACE && !HELD_BELOW -> skip
    :: (CURRENT && S.state != FINAL && !S.origin) || (REPLACE && HELD_BELOW) ->
        if
        :: REPLACE -> claim()
        :: else
        fi;
        assert(b == p); S.origin = b; send_ahead()
    :: else -> assert(0) /* the slot is not free */
    fi
}

inline probe() {
    if
    :: STALE -> skip
    :: REPLACE || (CURRENT && (S.missing & BIT(link))) -> send(NEED, link, p, 0, 0, 0)
    :: CURRENT && !(S.missing & BIT(link)) ->
        repeat();
        if
        :: S.state != FINAL -> send(WAIT, link, p, 0, 0, 0)
        :: else
        fi
    :: else -> skip
    fi
}

/* 7.5, item 5: a device in between that has the RESULT and lacks the data asks at once. */
inline result() {
    if
    :: CURRENT && S.up && !S.answer && S.state != FINAL ->
        if
        :: b && !S.origin -> S.origin = b
        :: else
        fi;
        if
#ifndef RESULT_GOES_DOWN /* broken without: nobody below it can get the data any more */
        :: !S.origin -> send(PROBE, me, p, 0, 0, 0)
#else
        :: !S.origin -> S.answer = 1; distribute()
#endif
        :: S.origin && S.state == LOCAL -> S.answer = 1; distribute()
        :: S.origin && S.state == OPEN -> S.answer = 1
        fi
    :: else
    fi
}

proctype Device(byte me) {
    PACKET;
    byte p, x, y;
    do
    :: atomic {
        wire[me]?type, link, a, b, c, d ->
        p = a;
        if
        :: type == CONTRIBUTION -> contribution()
        :: type == EARLY_DATA -> early_data()
        :: type == PROBE -> probe()
        :: type == RESULT -> result()
        :: type == NEED ->
            if
            :: CURRENT && S.up && !S.answer && S.state != FINAL -> send_up()
            :: else
            fi
        :: type == WAIT
        fi;
        FORGET; p = 0; x = 0; y = 0
    }
    od
}

/* A NIC with one rank. */
#define NEXT (FIRST + sent[me])
#define BRINGS(p) (me == ROOT_OF(p) -> (p) : 0)
#define MAY_SEND (NEXT <= LAST && (NEXT < FIRST + W || (held[me] & PLACE(NEXT - W)))) /* 6: the window */
#define IS_WAITED(p) ((p) < NEXT && !(held[me] & PLACE(p)))
#define WAITS (held[me] != BIT(sent[me]) - 1)
#define IS_FREE(p) ((p) < FIRST + N || (held[me] & PLACE((p) - N)))

/* 8, and 7.5, item 5: a header asks for the lowest position that is not done. */
inline ask() {
    p = FIRST;
    do
    :: p < NEXT && (held[me] & PLACE(p)) -> p++
#ifdef SILENT_WITH_RESULT /* broken: a child with the RESULT does not ask for the data */
    :: p < NEXT && !(held[me] & PLACE(p)) && (answered[me] & PLACE(p)) -> p++
#endif
    :: else -> break
    od;
    if
    :: p < NEXT -> send(PROBE, me, p, 0, 0, 0)
    :: else
    fi;
    p = 0
}

/* 7.5, item 4: a position is done when RESULT and data are here. */
inline settle(q) {
    if
#ifdef DATA_COUNT_AS_RESULT /* broken: the window no longer proves what others hold */
    :: (data[me] & PLACE(q)) && (q) < NEXT && me != ROOT_OF(q) -> held[me] = held[me] | PLACE(q)
#endif
#ifdef RESULT_ENDS /* broken: a RESULT without data ends a position whose data are lost */
    :: answered[me] & PLACE(q) -> assert(data[me] & PLACE(q)); held[me] = held[me] | PLACE(q)
#endif
    :: (data[me] & PLACE(q)) && (answered[me] & PLACE(q)) -> held[me] = held[me] | PLACE(q)
    :: else
    fi
}

proctype Nic(byte me) {
    PACKET;
    byte p, y;
    do
    :: atomic {
        MAY_SEND -> p = NEXT; sent[me]++;
        if
        :: me == ROOT_OF(p) -> data[me] = data[me] | PLACE(p)
        :: else
        fi;
        y = BRINGS(p); send(CONTRIBUTION, me, p, y, 0, 0); settle(p);
        p = 0; y = 0
    }
    :: atomic { due & BIT(me) -> due = due & ~BIT(me); ask() }
    :: atomic { early > 0 && WAITS -> early--; ask() }
    :: atomic {
        wire[me]?type, link, a, b, c, d ->
        if
        :: type == EARLY_DATA && !(held[me] & PLACE(a)) ->
            assert(b == a && IS_FREE(a)); /* item 3 */
            data[me] = data[me] | PLACE(a); settle(a)
        :: type == RESULT && IS_WAITED(a) ->
            assert(b == 0 || b == a);
            answered[me] = answered[me] | PLACE(a);
            if
            :: b -> data[me] = data[me] | PLACE(a)
            :: else
            fi;
            settle(a)
        :: type == NEED && IS_WAITED(a) -> y = BRINGS(a); send(CONTRIBUTION, me, a, y, 0, 0); y = 0
        :: else
        fi;
        FORGET
    }
    od
}

init {
    byte x;
    atomic {
        do
        :: x < DEVICES * N -> slot[x].position = x % N; slot[x].state = FINAL; x++
        :: else -> break
        od;
        x = 0;
        do
        :: x < DEVICES -> run Device(x); x++
        :: x >= DEVICES && x < PEERS -> run Nic(x); x++
        :: else -> break
        od;
        x = 0;
        run Network();
        run Clock()
    }
}

ltl ends { <> finished }
