/* The devices and NICs of a tree, and its window. Included by each model of a tree.

   STAR2, STAR3   top over 2 or 3 NICs
   CHAIN          top over a middle device over 2 NICs
   MIXED          top over a middle device over 2 NICs, and over a third NIC

   W           the window; N = 2 W slots
   POSITIONS   length of the stream

   Devices are numbered from 0, the top; then come the NICs. Broken variant: SMALL_LEASE. */

#ifndef W
#define W 1
#endif
#ifndef POSITIONS
#define POSITIONS 3
#endif
#ifdef SMALL_LEASE
#define N W /* broken: a contribution no longer proves that every child holds the result before */
#else
#define N (2 * W) /* 6: the window is at most half of the lease */
#endif

#if defined(STAR3)
#define DEVICES 1
#define NICS 3
#define PARENT(x) 0
#define CHILDREN(x) 14
#define LOWEST(x) 1
#elif defined(CHAIN)
#define DEVICES 2
#define NICS 2
#define PARENT(x) ((x) == 1 -> 0 : 1)
#define CHILDREN(x) ((x) == 0 -> 2 : 12)
#define LOWEST(x) ((x) == 0 -> 1 : 2)
#elif defined(MIXED)
#define DEVICES 2
#define NICS 3
#define PARENT(x) ((x) == 1 || (x) == 4 -> 0 : 1)
#define CHILDREN(x) ((x) == 0 -> 18 : 12)
#define LOWEST(x) ((x) == 0 -> 1 : 2)
#else /* STAR2 */
#define DEVICES 1
#define NICS 2
#define PARENT(x) 0
#define CHILDREN(x) 6
#define LOWEST(x) 1
#endif

#define PEERS (DEVICES + NICS)
#define RECEIVER (type == CONTRIBUTION || type == PROBE -> PARENT(link) : link)
#define ALL_PEERS (BIT(PEERS) - BIT(DEVICES)) /* only NICs have timers for data */
/* Positions begin at N, so that slot s can start with position s, FINAL: a result that nobody will ask for. */
#define FIRST N
#define LAST (FIRST + POSITIONS - 1)
#define PLACE(p) BIT((p) - FIRST)
#define ALL_HELD (BIT(POSITIONS) - 1)
#define finished (held[DEVICES] == ALL_HELD && held[DEVICES + 1] == ALL_HELD && held[PEERS - 1] == ALL_HELD)
