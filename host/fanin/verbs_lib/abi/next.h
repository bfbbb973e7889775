/* The functions of the libibverbs that the program has loaded: they serve all devices that are not ours. */
#ifndef FANIN_VERBS_NEXT_H
#define FANIN_VERBS_NEXT_H

#define EXPORT __attribute__((visibility("default")))

/* A function by its name and the version of its symbol; NULL: no libibverbs is loaded, or it does not have it. */
void *our_find_next(const char *name, const char *version);
/* The same for an object that libibverbs has made, so that it must be there. */
void *our_next(const char *name, const char *version);

#define NEXT(name, version) ((__typeof__(&name))our_next(#name, version))
#define FIND_NEXT(name, version) ((__typeof__(&name))our_find_next(#name, version))

#endif
