/* A memory without a total order of stores, and threads that share it. It promises what the memory of C11 promises and
   nothing else; so what holds here needs no order that a processor gives beyond that.

   A store to a word leaves a message; a load takes any message of the word but one older than what its thread knows
   of. What a thread knows is its view: of each word the oldest message that it may still load, of each thread how far
   it has got. A store with release sends the view along, and a load with acquire takes it over; a relaxed one does
   not. A fence takes over what earlier fences knew of words, and leaves what it knows itself.

   Data are no words. A thread that reads what another has written, or writes what another has written or read, must
   know that it has: else the two are a race, and an assertion fails. So it makes no difference when data move.

   A word has one writer, or is changed by `change` alone. The model that includes this defines

   THREADS, WORDS, DATA   how many there are
   STORES                 how many there are to one word at most; that it is enough is asserted */

#define VIEW (WORDS + THREADS)

typedef View { byte at[VIEW] };
View view[THREADS];
View sent[WORDS * STORES];
View fences;
byte value[WORDS * STORES];
byte latest[WORDS];            /* number of the newest message */
byte writer[DATA];
byte written_at[DATA];
byte read_at[DATA * THREADS];

/* Variables of a thread. Both are 0 between two accesses. */
#define TEMPORARY byte k, t

#define NEW_PART view[me].at[WORDS + me]++ /* the thread's later actions are unknown to others */

inline join(to, from, count) {
    k = 0;
    do
    :: k < count -> if :: to.at[k] < from.at[k] -> to.at[k] = from.at[k] :: else fi; k++
    :: else -> break
    od;
    k = 0
}

inline add_message(word, what, release) {
    latest[word]++;
    assert(latest[word] < STORES);
    value[(word) * STORES + latest[word]] = what;
    view[me].at[word] = latest[word];
    sent[(word) * STORES + latest[word]].at[word] = latest[word];
    if
    :: release -> join(sent[(word) * STORES + latest[word]], view[me], VIEW); NEW_PART
    :: else
    fi
}

inline store(word, what, release) {
    d_step { add_message(word, what, release) }
}

inline load(word, acquire, into) {
    atomic {
        t = view[me].at[word];
        do
        :: t < latest[word] -> t++
        :: break
        od;
        skip; /* a loop may not end in a d_step */
        d_step {
            into = value[(word) * STORES + t];
            view[me].at[word] = t;
            if
            :: acquire -> join(view[me], sent[(word) * STORES + t], VIEW)
            :: else
            fi;
            t = 0
        }
    }
}

/* An atomic change of the newest value, with acquire and release. */
inline change(word, what) {
    d_step {
        join(view[me], sent[(word) * STORES + latest[word]], VIEW);
        add_message(word, what, 1)
    }
}

/* As `change` to a value that does not depend on the old one, which is returned. */
inline swap(word, what, into) {
    d_step {
        into = value[(word) * STORES + latest[word]];
        join(view[me], sent[(word) * STORES + latest[word]], VIEW);
        add_message(word, what, 1)
    }
}

inline fence(present) {
    d_step {
        if
        :: present -> join(view[me], fences, WORDS); join(fences, view[me], WORDS)
        :: else
        fi
    }
}

/* The lock of the kernel in a system call. */
inline enter_kernel(lock) {
    join(view[me], lock, VIEW);
    join(lock, view[me], VIEW);
    NEW_PART
}

#define KNOWS_WRITER(datum) \
    (writer[datum] == me || view[me].at[WORDS + writer[datum]] >= written_at[datum])

inline read(datum) {
    d_step {
        assert(KNOWS_WRITER(datum));
        read_at[(datum) * THREADS + me] = view[me].at[WORDS + me]
    }
}

inline write(datum) {
    d_step {
        assert(KNOWS_WRITER(datum));
        k = 0;
        do
        :: k < THREADS ->
            assert(k == me || view[me].at[WORDS + k] >= read_at[(datum) * THREADS + k]);
            k++
        :: else -> break
        od;
        k = 0;
        writer[datum] = me;
        written_at[datum] = view[me].at[WORDS + me]
    }
}

#define BEGIN d_step { NEW_PART }
