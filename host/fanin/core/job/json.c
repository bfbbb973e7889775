#include "job/json.h"
#include <stdlib.h>
#include <string.h>

static void fail(struct json *json)
{
    json->failed = 1;
    json->at = "";
}

static void skip_space(struct json *json)
{
    json->at += strspn(json->at, " \t\r\n");
}

static int take(struct json *json, char wanted)
{
    skip_space(json);
    if (*json->at != wanted)
        return 0;
    json->at++;
    return 1;
}

/* The separator before the next member or element, or the end. */
static int next(struct json *json, int *first, char opening, char closing)
{
    if (*first && !take(json, opening))
        fail(json);
    if (json->failed || take(json, closing))
        return 0;
    if (!*first && !take(json, ','))
        fail(json);
    *first = 0;
    return !json->failed;
}

int json_next_member(struct json *json, int *first, char *name, size_t capacity)
{
    if (!next(json, first, '{', '}'))
        return 0;
    json_string(json, name, capacity);
    if (!take(json, ':'))
        fail(json);
    return !json->failed;
}

int json_next_element(struct json *json, int *first)
{
    return next(json, first, '[', ']');
}

uint64_t json_number(struct json *json)
{
    char *rest;
    uint64_t number;

    skip_space(json);
    number = strtoull(json->at, &rest, 10);
    if (rest == json->at || *json->at == '-')
        fail(json);
    else
        json->at = rest;
    return number;
}

int json_word(struct json *json, const char *word)
{
    size_t length = strlen(word);

    skip_space(json);
    if (strncmp(json->at, word, length))
        return 0;
    json->at += length;
    return 1;
}

void json_string(struct json *json, char *text, size_t capacity)
{
    const char *end;

    *text = 0;
    end = take(json, '"') ? strpbrk(json->at, "\"\\") : NULL;
    if (!end || *end == '\\' || (size_t)(end - json->at) >= capacity) {
        fail(json);
        return;
    }
    memcpy(text, json->at, (size_t)(end - json->at));
    text[end - json->at] = 0;
    json->at = end + 1;
}

void json_skip(struct json *json)
{
    const char *end;
    int first = 1;

    skip_space(json);
    if (*json->at == '{') {
        char name[64];
        while (json_next_member(json, &first, name, sizeof name))
            json_skip(json);
    } else if (*json->at == '[') {
        while (json_next_element(json, &first))
            json_skip(json);
    } else if (take(json, '"')) {
        for (end = json->at; *end && *end != '"'; end++)
            if (*end == '\\' && end[1])
                end++;
        if (*end)
            json->at = end + 1;
        else
            fail(json);
    } else {
        size_t length = strcspn(json->at, ",]} \t\r\n");
        if (length)
            json->at += length;
        else
            fail(json);
    }
}
