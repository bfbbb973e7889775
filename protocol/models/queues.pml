/* The rings between processes and threads, on a memory without a total order of stores. docs/orderings.md names the
   code. A number is both a request and its place: request n is at n % DEPTH of its ring, its data at n % BUFFERS.

   Programs, one for each way that words are shared:

   (none)     a rank posts requests with data, the device puts results in their place and completes them; the device
              sleeps until its doorbell rings, the rank on a futex
   ARRIVALS   the device fills a ring unasked, and goes on when the rank has emptied it
   LANES      lane 0 gives the rank's requests to lane 1, and its completions back; both lanes sleep
   RESOLVER   a flag and an eventfd: the loop of a verbs port wakes the resolver only if it was not woken yet

   REQUESTS   length of the stream
   SLEEPS     how often each may go to sleep

   A sleep has no time limit here. Who is not woken sleeps for ever: an invalid end state.

   Each barrier has a name below, and is left out by NAME=0: a store with release and a load with acquire become
   relaxed, a fence is none, an exchange becomes a load and a store. */

#ifndef POST
#define POST 1        /* release of the send ring's producer, after the request and its data */
#endif
#ifndef FETCH
#define FETCH 1       /* acquire of it */
#endif
#ifndef FREE
#define FREE 1        /* release of the send ring's consumer, after the request was read */
#endif
#ifndef ROOM
#define ROOM 1        /* acquire of it, before a place is written again */
#endif
#ifndef COMPLETE
#define COMPLETE 1    /* release of the completion ring's producer, after result and completion; of an arrival's */
#endif
#ifndef POLL
#define POLL 1        /* acquire of it */
#endif
#ifndef TAKE
#define TAKE 1        /* release of an arrival ring's consumer, after the arrival was read */
#endif
#ifndef SEE
#define SEE 1         /* acquire of it */
#endif
#ifndef BELL_FENCE
#define BELL_FENCE 1  /* between a post and the look whether the device sleeps */
#endif
#ifndef SLEEP_FENCE
#define SLEEP_FENCE 1 /* between "I sleep" and the last look at the rings */
#endif
#ifndef WAKE_FENCE
#define WAKE_FENCE 1  /* between a completion and the look whether the rank waits */
#endif
#ifndef WAIT_FENCE
#define WAIT_FENCE 1  /* between "I wait" and the last look at the completion ring */
#endif
#ifndef SUBMIT
#define SUBMIT 1      /* release of a lane's send ring */
#endif
#ifndef MERGE
#define MERGE 1       /* acquire of a lane's completion ring */
#endif
#ifndef EXCHANGE
#define EXCHANGE 1    /* "the resolver was woken" is set and cleared by exchanges */
#endif

#ifndef REQUESTS
#define REQUESTS 3
#endif
#ifndef SLEEPS
#define SLEEPS 1
#endif
#ifndef DEPTH
#define DEPTH 1
#endif
#define BUFFERS 2

#define RANK 0
#define DEVICE 1
#define LANE 2

/* Words. */
#define SQ_PRODUCER 0
#define SQ_CONSUMER 1
#define CQ_PRODUCER 2
#define SLEEPING 3
#ifdef LANES
#define THREADS 3
#define LANE_SQ_PRODUCER 4
#define LANE_CQ_PRODUCER 5
#define LANE_SLEEPING 6
#define WORDS 7
#else
#define THREADS 2
#define WAITING 4
#define WAKE_AT 5
#define WORDS 6
#endif
#define STORES (2 * REQUESTS + 2)

/* Data. */
#define WQE(n) ((n) % DEPTH)
#define CQE(n) (DEPTH + (n) % BUFFERS)
#define BUFFER(n) (DEPTH + BUFFERS + (n) % BUFFERS)
#define LANE_WQE(n) (DEPTH + 2 * BUFFERS + (n) % BUFFERS)
#define LANE_CQE(n) (DEPTH + 3 * BUFFERS + (n) % BUFFERS)
#define DATA (DEPTH + 4 * BUFFERS)

#include "memory.pml"

bit finished;
bit rings[THREADS];  /* the eventfd of a thread that sleeps in poll is readable */
View eventfd[THREADS];
bit asleep;          /* the rank, in the kernel */
View futex;

/* "Store what it shall find, fence, look whether it sleeps." */
inline ring_doorbell(thread, flag) {
    fence(BELL_FENCE);
    load(flag, 0, seen);
    if
    :: seen -> d_step { enter_kernel(eventfd[thread]); rings[thread] = 1; seen = 0 }
    :: else
    fi
}

/* In poll. */
inline sleep_in_poll(flag) {
    atomic { rings[me] || finished -> d_step { enter_kernel(eventfd[me]); rings[me] = 0 } };
    store(flag, 0, 1)
}

/* The device's wake-up of a rank: what it waits for must be there. */
inline wake_rank(producer) {
    fence(WAKE_FENCE);
    load(WAITING, 0, seen);
    if
    :: seen ->
        load(WAKE_AT, 0, seen);
        if
        :: producer >= seen -> d_step { enter_kernel(futex); asleep = 0 }
        :: else
        fi;
        seen = 0
    :: else
    fi
}

/* The rank sleeps until completion `target` is there. The futex compares what it finds under its lock. */
inline sleep_on_futex(target) {
    change(WAKE_AT, target);
    change(WAITING, 1);
    fence(WAIT_FENCE);
    load(CQ_PRODUCER, POLL, seen);
    if
    :: seen < target ->
        atomic {
            d_step { enter_kernel(futex); expected = seen };
            load(CQ_PRODUCER, 0, seen);
            if
            :: seen == expected -> asleep = 1
            :: else
            fi;
            expected = 0
        };
        !asleep
    :: else
    fi;
    seen = 0;
    change(WAITING, 0)
}

#ifdef RESOLVER

/* The words are used under other names: WANTED is SLEEPING, its destination a word of its own. */
#define WANTED SLEEPING
#define DESTINATION SQ_PRODUCER

/* The compiled loop marks destinations; its mark is the number of the last one. */
proctype Loop() {
    byte me = RANK, n = 1, seen;
    TEMPORARY;
    BEGIN;
    do
    :: n <= REQUESTS ->
        store(DESTINATION, n, 0);
        if
        :: EXCHANGE -> swap(WANTED, 1, seen)
        :: else -> load(WANTED, 1, seen); store(WANTED, 1, 1)
        fi;
        if
        :: !seen -> d_step { enter_kernel(eventfd[DEVICE]); rings[DEVICE] = 1 }
        :: else
        fi;
        seen = 0;
        n++
    :: else -> break
    od
}

/* It ends when it has found the last mark. */
proctype Resolver() {
    byte me = DEVICE, seen, found;
    TEMPORARY;
    BEGIN;
    do
    :: found < REQUESTS ->
        atomic { rings[me] -> d_step { enter_kernel(eventfd[me]); rings[me] = 0 } };
        if
        :: EXCHANGE -> swap(WANTED, 0, seen)
        :: else -> store(WANTED, 0, 1)
        fi;
        seen = 0;
        load(DESTINATION, 0, found)
    :: else -> break
    od
}

init { atomic { run Loop(); run Resolver() } }

#else
#ifdef ARRIVALS

proctype Rank() {
    byte me = RANK, taken, seen;
    TEMPORARY;
    BEGIN;
    do
    :: taken < REQUESTS && latest[CQ_PRODUCER] > taken ->
        load(CQ_PRODUCER, POLL, seen);
        if
        :: seen > taken -> taken++; read(WQE(taken)); store(SQ_CONSUMER, taken, TAKE)
        :: else
        fi;
        seen = 0
    :: taken == REQUESTS -> break
    od
}

proctype Device() {
    byte me = DEVICE, given, consumer, seen;
    TEMPORARY;
    BEGIN;
    do
    :: given < REQUESTS && given - consumer < DEPTH ->
        given++;
        write(WQE(given));
        store(CQ_PRODUCER, given, COMPLETE)
    :: given < REQUESTS && given - consumer >= DEPTH && latest[SQ_CONSUMER] > consumer ->
        load(SQ_CONSUMER, SEE, seen);
        consumer = seen;
        seen = 0
    :: given == REQUESTS -> break
    od
}

#else

/* A request is posted when there is room in the ring, and its buffer is free; then its completion is waited for. */
proctype Rank() {
    byte me = RANK, posted, taken, room, seen, expected, sleeps = SLEEPS;
    TEMPORARY;
    BEGIN;
    do
    :: taken < REQUESTS && latest[CQ_PRODUCER] > taken ->
        load(CQ_PRODUCER, POLL, seen);
        do
        :: taken < seen -> taken++; read(CQE(taken)); read(BUFFER(taken))
        :: else -> break
        od;
        seen = 0
#ifndef LANES
    :: taken < posted && sleeps > 0 -> sleeps--; sleep_on_futex(taken + 1)
#endif
    :: posted < REQUESTS && posted - taken < BUFFERS && posted - room >= DEPTH && latest[SQ_CONSUMER] > room ->
        load(SQ_CONSUMER, ROOM, seen);
        room = seen;
        seen = 0
    :: posted < REQUESTS && posted - taken < BUFFERS && posted - room < DEPTH ->
        posted++;
        write(BUFFER(posted));
        write(WQE(posted));
        store(SQ_PRODUCER, posted, POST);
        ring_doorbell(DEVICE, SLEEPING)
    :: taken == REQUESTS -> finished = 1; break
    od
}

#ifndef LANES

proctype Device() {
    byte me = DEVICE, taken, seen, sleeps = SLEEPS;
    TEMPORARY;
    BEGIN;
    do
    :: latest[SQ_PRODUCER] > taken ->
        load(SQ_PRODUCER, FETCH, seen);
        if
        :: seen > taken ->
            taken++;
            read(WQE(taken));
            store(SQ_CONSUMER, taken, FREE);
            read(BUFFER(taken));
            write(BUFFER(taken));
            write(CQE(taken));
            store(CQ_PRODUCER, taken, COMPLETE);
            wake_rank(taken)
        :: else
        fi;
        seen = 0
    :: sleeps > 0 ->
        sleeps--;
        store(SLEEPING, 1, 1);
        fence(SLEEP_FENCE);
        load(SQ_PRODUCER, FETCH, seen);
        if
        :: seen == taken -> seen = 0; sleep_in_poll(SLEEPING)
        :: else -> seen = 0; store(SLEEPING, 0, 1)
        fi
    :: finished -> break
    od
}

#else

/* Lane 0, which splits and merges. It does no part itself. */
proctype Device() {
    byte me = DEVICE, taken, merged, seen, sleeps = SLEEPS;
    TEMPORARY;
    BEGIN;
    do
    :: latest[SQ_PRODUCER] > taken ->
        load(SQ_PRODUCER, FETCH, seen);
        if
        :: seen > taken ->
            taken++;
            read(WQE(taken));
            store(SQ_CONSUMER, taken, FREE);
            write(LANE_WQE(taken));
            store(LANE_SQ_PRODUCER, taken, SUBMIT);
            ring_doorbell(LANE, LANE_SLEEPING)
        :: else
        fi;
        seen = 0
    :: latest[LANE_CQ_PRODUCER] > merged ->
        load(LANE_CQ_PRODUCER, MERGE, seen);
        if
        :: seen > merged ->
            merged++;
            read(LANE_CQE(merged));
            write(CQE(merged));
            store(CQ_PRODUCER, merged, COMPLETE)
        :: else
        fi;
        seen = 0
    :: sleeps > 0 ->
        sleeps--;
        store(SLEEPING, 1, 1);
        fence(SLEEP_FENCE);
        load(SQ_PRODUCER, FETCH, seen);
        if
        :: seen == taken -> load(LANE_CQ_PRODUCER, MERGE, seen); seen = (seen == merged)
        :: else -> seen = 0
        fi;
        if
        :: seen -> seen = 0; sleep_in_poll(SLEEPING)
        :: else -> store(SLEEPING, 0, 1)
        fi
    :: finished -> break
    od
}

proctype Lane() {
    byte me = LANE, taken, seen, sleeps = SLEEPS;
    TEMPORARY;
    BEGIN;
    do
    :: latest[LANE_SQ_PRODUCER] > taken ->
        load(LANE_SQ_PRODUCER, FETCH, seen);
        if
        :: seen > taken ->
            taken++;
            read(LANE_WQE(taken));
            read(BUFFER(taken));
            write(BUFFER(taken));
            write(LANE_CQE(taken));
            store(LANE_CQ_PRODUCER, taken, COMPLETE);
            ring_doorbell(DEVICE, SLEEPING)
        :: else
        fi;
        seen = 0
    :: sleeps > 0 ->
        sleeps--;
        store(LANE_SLEEPING, 1, 1);
        fence(SLEEP_FENCE);
        load(LANE_SQ_PRODUCER, FETCH, seen);
        if
        :: seen == taken -> seen = 0; sleep_in_poll(LANE_SLEEPING)
        :: else -> seen = 0; store(LANE_SLEEPING, 0, 1)
        fi
    :: finished -> break
    od
}
#endif
#endif

init {
    atomic {
        run Rank();
        run Device();
#ifdef LANES
        run Lane()
#endif
    }
}
#endif
