/* What carries packets between the roles, and time. Included by each model, which defines:

   PEERS            how many roles receive packets
   RECEIVER         the number of the role that packet (type, link, ...) is for
   ALL_PEERS        bitmap of the roles that have timers
   finished         nothing is left to be done
   LOSSES, COPIES   how many packets may be lost, how many duplicated
   MAY_BE_LOST      which of them may be lost, by default all
   EARLY            how many timers may expire while packets are on their way

   Reordering is free: of the packets on their way any may be the next. They are kept sorted, so that states that differ
   in nothing else are one.

   A timer expires when nothing else can happen (`timeout`). So a search for cycles needs no assumption of fairness:
   between two expiries everything that can be delivered has been, and whoever could do something has done it. */

#ifndef LOSSES
#define LOSSES 1
#endif
#ifndef MAY_BE_LOST
#define MAY_BE_LOST 1
#endif
#ifndef COPIES
#define COPIES 1
#endif
#ifndef EARLY
#define EARLY 0
#endif
#define ROOM 14 /* packets on their way, at most; that it is enough is asserted */
#define BIT(x) (1 << (x))

/* type, link, and four fields that each model names. */
chan net = [ROOM] of { mtype, byte, byte, byte, byte, byte };
chan wire[PEERS] = [0] of { mtype, byte, byte, byte, byte, byte };
byte losses = LOSSES;
byte copies = COPIES;
byte early = EARLY;
byte due; /* bitmap of the roles whose timers have expired */

inline send(type_, link_, a_, b_, c_, d_) {
    assert(nfull(net));
    net!!type_, link_, a_, b_, c_, d_
}

/* Variables of a role that receives. All are 0 between two packets, so that they add no states. */
#define PACKET mtype type; byte link, a, b, c, d
#define FORGET type = 0; link = 0; a = 0; b = 0; c = 0; d = 0

proctype Network() {
    PACKET;
    mtype t0; byte t1, t2, t3, t4, t5, k, n;
    do
    :: atomic {
        len(net) > 0 ->
        k = 0;
        do
        :: k + 1 < len(net) -> k++
        :: break
        od;
        skip; /* a loop may not end in a d_step */
        d_step { /* take packet k; the others stay in their order */
            n = 0;
            do
            :: n < k -> net?t0, t1, t2, t3, t4, t5; net!t0, t1, t2, t3, t4, t5; n++
            :: else -> break
            od;
            net?type, link, a, b, c, d;
            n = len(net) - k;
            do
            :: n > 0 -> net?t0, t1, t2, t3, t4, t5; net!t0, t1, t2, t3, t4, t5; n--
            :: else -> break
            od;
            k = 0; t0 = 0; t1 = 0; t2 = 0; t3 = 0; t4 = 0; t5 = 0
        }
        if
        :: wire[RECEIVER]!type, link, a, b, c, d
        :: losses > 0 && MAY_BE_LOST -> losses--
        :: copies > 0 -> copies--; net!!type, link, a, b, c, d; wire[RECEIVER]!type, link, a, b, c, d
        fi;
        FORGET
    }
    od
}

/* All timers expire at once. */
proctype Clock() {
    do
    :: atomic { timeout -> if :: finished -> break :: else -> due = ALL_PEERS fi }
    od
}
