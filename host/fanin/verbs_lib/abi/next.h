/* The functions of the program's libibverbs, which serve all other devices. */
#ifndef FANIN_VERBS_NEXT_H
#define FANIN_VERBS_NEXT_H

#define EXPORT __attribute__((visibility("default")))

/* A function by its name and symbol version; NULL: no libibverbs is loaded, or it lacks the function. */
void *our_find_next(const char *name, const char *version);
/* The same for an object of libibverbs, so the function must exist. */
void *our_next(const char *name, const char *version);

#define NEXT(name, version) ((__typeof__(&name))our_next(#name, version))
#define FIND_NEXT(name, version) ((__typeof__(&name))our_find_next(#name, version))

#endif
