/* A client over RDMA: when a result is there, and when memory is the program's again. Record 0108 names the
   code. What the device writes goes by the queue pair, requests such as DESTROY_QP and their replies by TCP, and nothing
   orders the two.

   A rank makes ENDS queue pairs, one after the other, with one request and one buffer each. It takes the completion, or
   destroys the queue pair before. It may give up waiting for the end of one, and go on with the next. At any moment it
   may lose the device, which goes on writing.

   The verbs device of the rank carries out WRITEs in their order. A result that it has in hand comes into memory when it
   likes, but before the rank has the completion of a later message. A result that comes into memory of the program's own
   is an error, which is asserted, as is a completion without its result.

   Each rule has a name below, and is left out by NAME=0. */

#ifndef MESSAGE
#define MESSAGE 1   /* a completion counts when its message is there, not when it is found in memory */
#endif
#ifndef MARKER
#define MARKER 1    /* the device posts a message behind all results before it answers DESTROY_QP */
#endif
#ifndef AWAIT
#define AWAIT 1     /* the rank waits for it before it uses the memory */
#endif
#ifndef COUNT
#define COUNT 1     /* it waits for as many as the answer says, else for one more than it has waited for */
#endif
#ifndef TURN
#define TURN 1      /* numbers of queue pairs are given in turn */
#endif
#ifndef CUT
#define CUT 1       /* who notices the loss ends the rank's queue pair */
#endif
#ifndef DESTROY
#define DESTROY 1   /* by destroying it, not by the state ERR, in which a result in hand still comes */
#endif
#ifndef TELL_LAST
#define TELL_LAST 1 /* the loss is told when the queue pair is gone */
#endif

#ifndef ENDS
#define ENDS 2 /* or 3 */
#endif
#ifndef NUMBERS
#define NUMBERS ENDS /* of queue pairs */
#endif

mtype = { RESULT, COMPLETION, MARK, CREATE_QP, DESTROY_QP };

chan written = [3 * ENDS] of { mtype, byte };  /* by the device, on the queue pair: kind, request */
chan requests = [ENDS] of { byte, byte };      /* by the rank, on the queue pair: number of its queue, request */
chan asked = [1] of { mtype };                 /* by TCP */
chan answered = [1] of { byte };

bit alive = 1;           /* the rank's queue pair */
bit in_hand[ENDS + 1];   /* a result that is carried out, and not in memory yet */
bit landed[ENDS + 1];
byte entry_in_hand, entry;  /* the last completion in the ring: the same */
byte completed;          /* the last one whose message is there */
byte markers;
bit programs[ENDS + 1];  /* the buffer is the program's */
bit lost;

inline land(n) {
    assert(!programs[n]);
    in_hand[n] = 0;
    landed[n] = 1
}

inline land_all() {
    k = 1;
    do
    :: k <= ENDS -> if :: in_hand[k] -> land(k) :: else fi; k++
    :: else -> break
    od;
    k = 0
}

proctype VerbsDevice() {
    mtype kind;
    byte n, k, message;
end:
    do
    :: atomic { alive && !message && nempty(written) -> written ? kind, n;
        if
        :: kind == RESULT -> in_hand[n] = 1
        :: kind == COMPLETION -> entry_in_hand = n; message = n
        :: kind == MARK -> land_all(); markers++
        fi;
        n = 0 }
    :: atomic { in_hand[1] -> land(1) }
    :: atomic { in_hand[2] -> land(2) }
#if ENDS > 2
    :: atomic { in_hand[3] -> land(3) }
#endif
    :: atomic { entry_in_hand -> entry = entry_in_hand; entry_in_hand = 0 }
    :: atomic { alive && message -> land_all(); completed = message; message = 0 }
    :: atomic { !alive && nempty(written) -> written ? kind, n; n = 0 }
    od
}

/* The engine gives out a result and its completion at different times. */
proctype Device() {
    mtype kind;
    byte made, number, n, marks;
    bit is_open, has_given;
end:
    do
    :: atomic { requests ? number, n ->
        if
        :: is_open && number == (TURN -> made % NUMBERS : 0) ->
            assert(n == made);
            written ! RESULT, n;
            has_given = 1
        :: else
        fi;
        n = 0; number = 0 }
    :: atomic { has_given -> written ! COMPLETION, made; has_given = 0 }
    :: atomic { asked ? kind ->
        if
        :: kind == CREATE_QP ->
            made++; is_open = 1;
            answered ! (TURN -> made % NUMBERS : 0)
        :: kind == DESTROY_QP ->
            is_open = 0; has_given = 0;
            if
            :: MARKER -> written ! MARK, 0; marks++
            :: else
            fi;
            answered ! marks
        fi }
    od
}

inline take_back(last) {
    d_step {
        k = 1;
        do
        :: k <= last -> programs[k] = 1; k++
        :: else -> break
        od;
        k = 0
    }
}

proctype Rank() {
    byte n, number, wanted, waited, k;
    do
    :: n < ENDS && !lost ->
        n++;
        asked ! CREATE_QP;
        answered ? number;
        requests ! number, n;
        number = 0;
        if
        :: (MESSAGE -> completed : entry) == n -> assert(landed[n]); programs[n] = 1
        :: true
        fi;
        asked ! DESTROY_QP;
        answered ? wanted;
        if
        :: !COUNT -> wanted = waited + 1
        :: else
        fi;
        if
        :: !AWAIT || markers >= wanted -> waited++; take_back(n)
        :: lost || n < ENDS
        fi;
        wanted = 0
    :: lost -> take_back(n); break
    :: n == ENDS && programs[n] -> break
    od
}

inline end_queue_pair() {
    d_step {
        if
        :: DESTROY -> land_all()
        :: else
        fi;
        alive = 0
    }
}

proctype Watch() {
    byte k;
    if
    :: true
    :: CUT && TELL_LAST -> end_queue_pair(); lost = 1
    :: CUT && !TELL_LAST -> lost = 1; end_queue_pair()
    :: !CUT -> lost = 1
    fi
}

init { atomic { run VerbsDevice(); run Device(); run Rank(); run Watch() } }
