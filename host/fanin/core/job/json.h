/* As much of JSON as the description of a job needs. */
#ifndef FANIN_JSON_H
#define FANIN_JSON_H
#include <stddef.h>
#include <stdint.h>

/* A place in a text that ends with a NUL. After something unexpected `failed` is set, and everything reads as nothing. */
struct json {
    const char *at;
    int failed;
};

/* Walk over the members of an object, or the elements of an array: `first` is 1 before the first. Returns 0 at the end.
 * The name of a member, or an element, is read next. */
int json_next_member(struct json *json, int *first, char *name, size_t capacity);
int json_next_element(struct json *json, int *first);

uint64_t json_number(struct json *json);
/* Whether `word` comes next; if so, it is read. */
int json_word(struct json *json, const char *word);
/* A string without escapes, shorter than `capacity`. */
void json_string(struct json *json, char *text, size_t capacity);
/* Whatever comes next. */
void json_skip(struct json *json);
#endif
