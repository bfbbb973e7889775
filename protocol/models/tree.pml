/* The slot protocol of a tree, from SPEC.md sections 6 to 8: one switch over two or three NICs, or two levels.

   | message      | way  | a        | b             | c              |
   | ------------ | ---- | -------- | ------------- | -------------- |
   | CONTRIBUTION | up   | position | data of which | whose data     |
   | RESULT       | down | position | data of which | whose data     |
   | PROBE        | up   | position |               |                |
   | NEED, WAIT   | down | position |               |                |

   `link` is the number of the child, in both directions. Data are what they are sums of: b, the position that they belong
   to, which no device looks at; c, how often each NIC is in them, a digit of two bits each. So a sum that is wrong shows.

   Every position is of class ALL: every NIC brings data and wants the result.

   Topologies and window: `topology.pml`.

   Broken variants: VERSION_BIT, SMALL_LEASE, FORGET_RESULT, DROP_IN_LOCAL, TOKEN_CLEARS; see where they are used. */

mtype = { CONTRIBUTION, RESULT, PROBE, NEED, WAIT };

#include "topology.pml"

#define DIGIT(nic) (1 << (2 * ((nic) - DEVICES)))
#define EVERYBODY (NICS == 2 -> 5 : 21) /* the sum in which each NIC is once */

byte sent[PEERS]; /* of NICs: how many positions have been sent */
byte held[PEERS]; /* of NICs: bitmap of the positions whose result is here */

#include "network.pml"

#define OPEN 0
#define LOCAL 1
#define FINAL 2
#define FORGOTTEN 3

typedef Slot {
    byte position;
    byte state;
    byte missing; /* children */
    byte origin;  /* the position whose data are in the sum */
    byte sum;
    bit put_off   /* a PROBE for the result was answered with WAIT */
};
Slot slot[DEVICES * N];
#define S slot[me * N + (p) % N]

/* Verdicts of the slot rule (6). */
#ifdef VERSION_BIT /* broken: the wire has p mod N and one bit of p / N */
#define VERSION(p) (((p) / N) % 2)
#define STALE (VERSION(p) != VERSION(S.position) && S.state != FINAL)
#define CURRENT (VERSION(p) == VERSION(S.position))
#define REPLACE (VERSION(p) != VERSION(S.position) && S.state == FINAL)
#else
#define STALE (p < S.position)
#define CURRENT (p == S.position)
#define REPLACE (p == S.position + N && S.state >= FINAL)
#endif

/* 7.2: one RESULT to each child; the result stays in the slot. */
inline distribute() {
    S.state = FINAL;
    S.put_off = 0;
    x = 1;
    do
    :: x < PEERS ->
        if
        :: CHILDREN(me) & BIT(x) -> send(RESULT, x, p, S.origin, S.sum, 0)
        :: else
        fi;
        x++
    :: else -> break
    od;
#ifdef FORGET_RESULT
    S.state = FORGOTTEN /* broken: a child that lost it can not be helped */
#endif
}

/* 7.1, item 6, and 7.2: all bits are in. */
inline complete() {
    if
    :: me == 0 -> distribute()
    :: else -> S.state = LOCAL; send(CONTRIBUTION, me, p, S.origin, S.sum, 0)
    fi
}

/* 7.1, item 2: a child whose bit is in sends again, or asks. */
inline repeat() {
    if
    :: S.state == FINAL -> send(RESULT, link, p, S.origin, S.sum, 0)
#ifndef DROP_IN_LOCAL /* broken without: nobody else would ask above */
    :: S.state == LOCAL && link == LOWEST(me) -> send(PROBE, me, p, 0, 0, 0)
#endif
    :: else
    fi
}

/* 7.1: a child's share of a position. */
inline contribution() {
    if
    :: STALE -> skip
    :: CURRENT && !(S.missing & BIT(link)) -> repeat() /* item 2: a duplicate */
    :: (CURRENT && (S.missing & BIT(link))) || REPLACE ->
        if
        :: REPLACE -> /* item 1 */
            assert(p > S.position); /* I3: a slot never goes back */
            S.position = p; S.state = OPEN; S.missing = CHILDREN(me); S.origin = b; S.sum = 0
        :: else
        fi;
        assert(S.origin == b); /* I1: data of one position are not summed with data of another */
        S.sum = S.sum + c; /* item 4 */
        S.missing = S.missing & ~BIT(link); /* item 5 */
        if
        :: S.missing == 0 -> complete()
        :: else
        fi;
#ifdef TOKEN_CLEARS
        x = p; /* broken: the child has sent p, so it counts as having sent all before */
        do
        :: p > FIRST ->
            p--;
            if
            :: S.position == p && S.state == OPEN && (S.missing & BIT(link)) ->
                S.missing = S.missing & ~BIT(link);
                if
                :: S.missing == 0 -> complete()
                :: else
                fi
            :: else
            fi
        :: else -> break
        od;
        p = x
#endif
    :: else -> skip /* a violation of the slot rule */
    fi
}

/* 8: every PROBE that is not stale is answered. */
inline probe() {
    if
    :: STALE -> skip
    :: REPLACE || (CURRENT && (S.missing & BIT(link))) -> send(NEED, link, p, 0, 0, 0)
#ifdef CROSSING /* the result has left just now: once that may be the answer, and is no more when time has passed */
    :: CURRENT && S.state == FINAL && !S.put_off -> S.put_off = 1; send(WAIT, link, p, 0, 0, 0)
#endif
#ifdef NEVER_AGAIN /* broken: a lost result stays lost */
    :: CURRENT && S.state == FINAL -> send(WAIT, link, p, 0, 0, 0)
    :: CURRENT && S.state != FINAL && !(S.missing & BIT(link)) ->
#else
    :: CURRENT && !(S.missing & BIT(link)) ->
#endif
        repeat();
        if
        :: S.state != FINAL -> send(WAIT, link, p, 0, 0, 0)
        :: else
        fi
    :: else -> skip
    fi
}

/* 7.2: a middle device takes it only in LOCAL with exactly this position. */
inline result() {
    if
    :: S.state == LOCAL && S.position == p -> S.origin = b; S.sum = c; distribute()
    :: else
    fi
}

proctype Device(byte me) {
    PACKET;
    byte p, x;
    do
    :: atomic {
        wire[me]?type, link, a, b, c, d ->
        p = a;
        if
        :: type == CONTRIBUTION -> contribution()
        :: type == PROBE -> probe()
        :: type == RESULT -> result()
        :: type == NEED -> /* 8: send again what is kept in LOCAL */
            if
            :: S.state == LOCAL && S.position == p -> send(CONTRIBUTION, me, p, S.origin, S.sum, 0)
            :: else
            fi
        :: type == WAIT /* 8: all is well */
        fi;
        FORGET; p = 0; x = 0
    }
    od
}

/* A NIC with one rank. Its next position, and the lowest whose result is not here. */
#define NEXT (FIRST + sent[me])
#define MAY_SEND (NEXT <= LAST && (NEXT < FIRST + W || (held[me] & PLACE(NEXT - W)))) /* 6: the window */
#define IS_WAITED(p) ((p) < NEXT && !(held[me] & PLACE(p)))
#define WAITS (held[me] != BIT(sent[me]) - 1)

/* 8: a header asks for the lowest position that is silent. */
inline ask() {
    p = FIRST;
    do
    :: p < NEXT && (held[me] & PLACE(p)) -> p++
    :: else -> break
    od;
    if
    :: p < NEXT -> send(PROBE, me, p, 0, 0, 0)
    :: else
    fi;
    p = 0
}

proctype Nic(byte me) {
    PACKET;
    byte p;
    do
    :: atomic { MAY_SEND -> p = NEXT; sent[me]++; send(CONTRIBUTION, me, p, p, DIGIT(me), 0); p = 0 }
    :: atomic { due & BIT(me) -> due = due & ~BIT(me); ask() }
    :: atomic { early > 0 && WAITS -> early--; ask() }
    :: atomic {
        wire[me]?type, link, a, b, c, d ->
        if
        :: type == RESULT && IS_WAITED(a) -> /* 7.3: taken once */
            assert(b == a && c == EVERYBODY); /* I1: over exactly its contributors, once each */
            held[me] = held[me] | PLACE(a)
        :: type == NEED && IS_WAITED(a) -> send(CONTRIBUTION, me, a, a, DIGIT(me), 0)
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
