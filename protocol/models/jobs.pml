/* The life of a job, from SPEC.md sections 5, 10 and 11: two NICs join at a switch, use the job once and leave, and form it
   again under the same jid with a new key, while packets of the former incarnation are still about. Meanwhile a NIC or
   the switch may restart and forget everything.

   | message      | way  | a   | b             | c             | d |
   | ------------ | ---- | --- | ------------- | ------------- | - |
   | CONFIG       | up   | key | boot id       |               |   |
   | CONFIG_ACK   | down | key | status        | token         |   |
   | CONTRIBUTION | up   | key | data          |               |   |
   | PROBE        | up   | key |               |               |   |
   | RESULT       | down | key | data of NIC 0 | data of NIC 1 |   |
   | NEED         | down | key |               |               |   |
   | WAIT         | down | key | other silent  |               |   |
   | LEAVE        | up   | key | status        |               |   |
   | LEAVE_ACK    | down | key |               |               |   |
   | ABORT, NAK   | down | key |               |               |   |

   `link` is the number of the NIC, 0 or 1. The token of a CONFIG is its boot id. Data tell the incarnation and the boot id
   of the NIC that they come from. The job has a stream of one position. A rank stands for its NIC: it joins, posts, leaves
   when its request has ended, and goes on to the next incarnation; so it does, too, when the job has failed, or its JOIN
   was refused because the incarnation before is still about.

   KEYS       incarnations
   RESTARTS   how many devices may restart

   Broken variants: LEAVE_OF_UNKNOWN_DROPPED, KEY_NOT_COMPARED, BOOT_ID_NOT_COMPARED, TOKEN_NOT_COMPARED,
   REFUSAL_FORGOTTEN; see where they are used. */

mtype = { CONFIG, CONFIG_ACK, CONTRIBUTION, PROBE, RESULT, NEED, WAIT, LEAVE, LEAVE_ACK, ABORT, NAK };

#ifndef KEYS
#define KEYS 2
#endif
#ifndef RESTARTS
#define RESTARTS 0
#endif
#define SWITCH 2
#define PEERS 3
#define ALL_PEERS 7
#define IS_UP(t) (t == CONFIG || t == CONTRIBUTION || t == PROBE || t == LEAVE)
#define RECEIVER (IS_UP(type) -> SWITCH : link)

/* Status of CONFIG_ACK and LEAVE. */
#define SUCCESS 0
#define PENDING 1
#define JID_IN_USE 2
#define FAILED 3

/* Life of the job at a NIC. */
#define IDLE 0
#define JOINING 1
#define ACTIVE 2
#define WAITING 3 /* for the result */
#define COMPLETE 4
#define LEAVING 5
#define GONE 6 /* no incarnation is left */

/* Life of the job at the switch. */
#define FREE 0
#define FORMING 1
#define RUNNING 2
#define TOMBSTONE 3

typedef Member {
    byte state;
    byte key;
    byte boot;
    bit failed;
    byte unanswered /* PROBEs since the switch was last heard */
};
Member nic[2];
typedef Job {
    byte state;
    byte key;
    byte joined;
    byte left;
    byte refused; /* key that this job was in the way of */
    byte missing;
    bit formed;
    byte data[2];
    byte boot[2]
};
Job job;
byte restarts = RESTARTS;
byte over; /* keys that the switch has refused since it started */

#define finished (nic[0].state == GONE && nic[1].state == GONE && job.state == FREE)
#define EVERYBODY 3
#define UNANSWERED 3 /* PROBEs, then the switch is taken for lost; more than packets can be lost */

#include "network.pml"

#define DATA(n) (nic[n].key * 4 + nic[n].boot)
#define KEY_OF(data) ((data) / 4)

inline forget() {
    job.state = FREE; job.key = 0; job.joined = 0; job.left = 0; job.refused = 0; job.missing = 0; job.formed = 0;
    job.data[0] = 0; job.data[1] = 0; job.boot[0] = 0; job.boot[1] = 0
}

/* 10.3: the record goes, and what it holds. 11: a tombstone of the incarnation that it has refused takes its place. Its age
   begins now. */
inline release() {
    if
#ifndef REFUSAL_FORGOTTEN /* broken without: a copy of a refused CONFIG brings in a member that has given up */
    :: job.refused -> n = job.refused; forget(); job.state = TOMBSTONE; job.key = n; n = 0; due = due & ~BIT(SWITCH)
#endif
    :: else -> forget()
    fi
}

inline tell_joined(type_, b_, c_) {
    n = 0;
    do
    :: n < 2 ->
        if
        :: job.joined & ~job.left & BIT(n) -> send(type_, n, job.key, b_, c_, 0)
        :: else
        fi;
        n++
    :: else -> n = 0; break
    od
}

/* 11: the record stays as a tombstone; whoever has joined is told. */
inline abort() {
    if
    :: job.state == TOMBSTONE -> skip
    :: else -> job.state = TOMBSTONE; job.missing = 0; tell_joined(ABORT, 0, 0)
    fi
}

/* 10.3: the record goes when all have left. A job that was never formed stays until every member has heard why. */
inline progress() {
    if
    :: job.state == RUNNING && job.left == EVERYBODY -> release()
    :: job.state == TOMBSTONE && !(job.joined & ~job.left) && (job.formed || job.left == EVERYBODY) -> release()
    :: else
    fi
}

inline config() {
    if /* a tombstone of a job that was never formed, and that all who came have left: another key takes its place */
    :: job.state == TOMBSTONE && job.key != a && job.refused != a && !job.formed && !(job.joined & ~job.left) -> forget()
    :: else
    fi;
    if
    :: job.state == FREE -> job.state = FORMING; job.key = a
    :: else
    fi;
    if
    :: job.key != a -> job.refused = a; over = over | BIT(a); send(CONFIG_ACK, link, a, JID_IN_USE, b, 0) /* item 3 */
    :: job.key == a && job.state == TOMBSTONE -> send(ABORT, link, a, 0, 0, 0) /* item 4 */
    :: else ->
        if
#ifndef BOOT_ID_NOT_COMPARED /* broken without: what the device sent before it restarted counts as sent */
        :: (job.joined & BIT(link)) && job.boot[link] != b -> abort() /* item 6 */
#endif
        :: else ->
            job.joined = job.joined | BIT(link); /* item 7 */
            job.boot[link] = b;
            if
            :: job.state == RUNNING -> send(CONFIG_ACK, link, a, SUCCESS, b, 0) /* item 8 */
            :: job.state == FORMING && job.joined == EVERYBODY ->
                job.state = RUNNING; job.formed = 1; job.missing = EVERYBODY;
                send(CONFIG_ACK, 0, a, SUCCESS, job.boot[0], 0);
                send(CONFIG_ACK, 1, a, SUCCESS, job.boot[1], 0)
            :: else -> send(CONFIG_ACK, link, a, PENDING, b, 0)
            fi
        fi
    fi
}

#ifdef KEY_NOT_COMPARED /* broken: an old packet enters the new job */
#define IS_OURS true
#else
#define IS_OURS (job.key == a)
#endif

/* 8: the age in a WAIT. A member that has gone on, and whose CONFIG was still on its way, will never be heard again. */
#define IS_SILENT(n) (nic[n].key != job.key)

/* 5, items 6 to 9, for packets about a position. */
inline position() {
    if
    :: job.state == FREE -> send(NAK, link, a, 0, 0, 0)
    :: job.state != FREE && !IS_OURS -> skip
    :: job.state == TOMBSTONE && IS_OURS -> send(ABORT, link, a, 0, 0, 0)
    :: job.state == FORMING && IS_OURS -> skip
    :: job.state == RUNNING && IS_OURS ->
        if
        :: !(job.missing & BIT(link)) && job.missing == 0 -> send(RESULT, link, job.key, job.data[0], job.data[1], 0)
        :: !(job.missing & BIT(link)) && job.missing && type == PROBE -> send(WAIT, link, a, IS_SILENT(1 - link), 0, 0)
        :: !(job.missing & BIT(link)) && job.missing && type == CONTRIBUTION -> skip
        :: (job.missing & BIT(link)) && type == PROBE -> send(NEED, link, a, 0, 0, 0)
        :: (job.missing & BIT(link)) && type == CONTRIBUTION ->
            job.data[link] = b;
            job.missing = job.missing & ~BIT(link);
            if
            :: job.missing == 0 -> tell_joined(RESULT, job.data[0], job.data[1])
            :: else
            fi
        fi
    fi
}

/* 10.4 */
inline leave() {
    if
    :: job.state == FREE || job.key != a ->
#ifndef LEAVE_OF_UNKNOWN_DROPPED /* broken without: who has lost the LEAVE_ACK repeats for ever */
        send(LEAVE_ACK, link, a, 0, 0, 0);
#endif
        if
        :: job.state == FREE && b != SUCCESS -> job.state = TOMBSTONE; job.key = a /* 5, item 6 */
        :: else
        fi
    :: else ->
        send(LEAVE_ACK, link, a, 0, 0, 0);
        job.left = job.left | BIT(link);
        if
        :: b != SUCCESS || (job.state == RUNNING && (job.missing & BIT(link))) -> abort()
        :: else
        fi;
        progress()
    fi
}

/* 10.5: a record none of whose members speaks any more. A NIC that lives in a job says so by KEEPALIVE. */
#define SPEAKS(n) (nic[n].key == job.key && nic[n].state != IDLE && nic[n].state != GONE && (job.joined & BIT(n)))
inline age() {
    if
    :: job.state != FREE && !SPEAKS(0) && !SPEAKS(1) -> release()
    :: else
    fi
}

proctype Switch() {
    PACKET;
    byte n;
    do
    :: atomic { due & BIT(SWITCH) -> due = due & ~BIT(SWITCH); age() }
    :: atomic { restarts > 0 && job.state != FREE -> restarts--; over = 0; forget() } /* it forgets everything */
    :: atomic {
        wire[SWITCH]?type, link, a, b, c, d ->
        if
        :: type == CONFIG -> config()
        :: type == LEAVE -> leave()
        :: type == CONTRIBUTION || type == PROBE -> position()
        fi;
        FORGET
    }
    od
}

/* 11: the job has failed here. LEAVE says so above. */
inline fail() {
    nic[me].state = LEAVING; nic[me].failed = 1; nic[me].unanswered = 0;
    send(LEAVE, me, nic[me].key, FAILED, 0, 0)
}

inline go_on() {
    nic[me].failed = 0; nic[me].unanswered = 0;
    nic[me].state = IDLE;
    nic[me].key++;
    if
    :: nic[me].key > KEYS -> nic[me].state = GONE
    :: else
    fi
}

/* Ranks agree on incarnations among themselves, outside of the protocol. One that still waits to join when the others
   have gone on, because their JOIN was refused or a device has forgotten them, learns it there. */
#define OTHERS_ARE_AHEAD (nic[1 - me].key > nic[me].key)

/* What is repeated until it is answered. */
inline repeat() {
    if
    :: nic[me].state == JOINING && OTHERS_ARE_AHEAD -> fail() /* the host gives up: 10.4 */
    :: nic[me].state == JOINING && !OTHERS_ARE_AHEAD ->
        send(CONFIG, me, nic[me].key, nic[me].boot, 0, 0)
    :: nic[me].state == WAITING && nic[me].unanswered == UNANSWERED -> fail() /* 11: nobody answers */
    :: nic[me].state == WAITING && nic[me].unanswered < UNANSWERED ->
        nic[me].unanswered++;
        send(PROBE, me, nic[me].key, 0, 0, 0)
    :: nic[me].state == LEAVING -> send(LEAVE, me, nic[me].key, (nic[me].failed -> FAILED : SUCCESS), 0, 0)
    :: else
    fi
}

#ifdef TOKEN_NOT_COMPARED /* broken: the answer to a CONFIG from before a restart lets the NIC in unnoticed */
#define IS_ANSWER true
#else
#define IS_ANSWER (c == nic[me].boot) /* 10.2 */
#endif

/* A packet of the NIC's own incarnation. */
inline receive() {
    nic[me].unanswered = 0;
    if
    :: type == CONFIG_ACK && nic[me].state == JOINING && b == SUCCESS && IS_ANSWER ->
        assert(!(over & BIT(a))); /* nobody is told that a refused incarnation runs */
        nic[me].state = ACTIVE
    :: type == CONFIG_ACK && nic[me].state == JOINING && b == JID_IN_USE && IS_ANSWER -> fail()
    :: type == RESULT && nic[me].state == WAITING ->
        assert((me == 0 -> b : c) == DATA(me)); /* I1: what this NIC has brought since it started */
        assert(KEY_OF(me == 0 -> c : b) == nic[me].key); /* ... and what the other has brought to this incarnation */
        nic[me].state = COMPLETE
    :: type == NEED && nic[me].state == WAITING -> send(CONTRIBUTION, me, nic[me].key, DATA(me), 0, 0)
    :: type == WAIT && nic[me].state == WAITING && b -> fail() /* 11: the age is above the detection time */
    :: type == LEAVE_ACK && nic[me].state == LEAVING -> go_on()
    :: type == ABORT && nic[me].state >= JOINING && nic[me].state <= COMPLETE -> fail()
    :: type == NAK && (nic[me].state == ACTIVE || nic[me].state == WAITING) -> fail() /* the switch has restarted */
    :: else
    fi
}

/* A NIC restarts and forgets everything. Its rank starts its work anew under the same key, unless that was complete. */
inline restart() {
    restarts--;
    nic[me].boot++;
    if
    :: nic[me].state >= COMPLETE -> go_on()
    :: else -> nic[me].state = IDLE; nic[me].failed = 0; nic[me].unanswered = 0
    fi
}

proctype Nic(byte me) {
    PACKET;
    do
    :: atomic { nic[me].state == IDLE -> nic[me].state = JOINING; send(CONFIG, me, nic[me].key, nic[me].boot, 0, 0) }
    :: atomic { nic[me].state == ACTIVE -> nic[me].state = WAITING; send(CONTRIBUTION, me, nic[me].key, DATA(me), 0, 0) }
    :: atomic { nic[me].state == COMPLETE -> nic[me].state = LEAVING; send(LEAVE, me, nic[me].key, SUCCESS, 0, 0) }
    :: atomic { due & BIT(me) -> due = due & ~BIT(me); repeat() }
    :: atomic { early > 0 && nic[me].state != IDLE && nic[me].state != GONE -> early--; repeat() }
    :: atomic { restarts > 0 && nic[me].state != IDLE && nic[me].state != GONE -> restart() }
    :: atomic {
        wire[me]?type, link, a, b, c, d ->
        if
        :: a == nic[me].key && nic[me].state != IDLE && nic[me].state != GONE -> receive()
        :: else /* of a former incarnation */
        fi;
        FORGET
    }
    od
}

init {
    atomic {
        nic[0].key = 1;
        nic[1].key = 1;
        run Switch();
        run Nic(0);
        run Nic(1);
        run Network();
        run Clock()
    }
}

ltl ends { <> finished }
