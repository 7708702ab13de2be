/* Reads JSON in memory, strictly (RFC 8259), without keeping anything of it: values are pieces of the text. */
#ifndef RUNNER_JSON_H
#define RUNNER_JSON_H

#include "line.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One value with no blank around it; `text` NULL: there is none. */
struct json {
    const char *text;
    size_t length;
};

/* The value that `text` is. When it is none, `wrong` (which may be NULL) says where and why. */
struct json json_read(const char *text, size_t length, struct line *wrong);
/* A member of an object; the last one of that name, as Python has it. */
struct json json_member(struct json object, const char *key);
bool json_is_object(struct json value);
/* The next item of a list, the first one after an item of {0}; false at its end, and for what is no list. */
bool json_next(struct json list, struct json *item);
/* Append what a JSON string says; false when the value is no string. */
bool json_string(struct json value, struct line *text);
/* Append an object in one line without blanks and without the members of one name. */
void json_without(struct json object, const char *key, struct line *out);

#ifdef __cplusplus
}
#endif

#endif
