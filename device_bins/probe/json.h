/* A growing piece of JSON. Commas are put by looking at the last character, so callers name only keys and items.
 *
 * Strings are bytes: each byte that is a control character or >= 0x80 becomes \u00XX (the latin-1 mapping), so that
 * nothing is lost and the text is valid JSON whatever a phone says.
 */
#ifndef PROBE_JSON_H
#define PROBE_JSON_H

#include "util.h"

struct json {
    char *data;
    size_t length;
    size_t cap;
};

void json_reset(struct json *json);
void json_reserve(struct json *json, size_t room);
void json_open(struct json *json, char bracket);
void json_close(struct json *json, char bracket);
void json_key(struct json *json, const char *key);
void json_key_bytes(struct json *json, const char *key);
void json_item(struct json *json);
void json_int(struct json *json, int64_t value);
void json_milli(struct json *json, int64_t thousandths); /* not negative; three digits after the point */
void json_maybe(struct json *json, struct maybe value);
void json_bool(struct json *json, bool value);
void json_null(struct json *json);
void json_text(struct json *json, const char *text); /* NULL is null */
void json_bytes(struct json *json, const char *bytes, size_t count);
void json_raw(struct json *json, const struct json *piece);
void json_newline(struct json *json);
void json_denied(struct json *json, const struct denied *denied);

/* Write all to stdout; false when that is broken. */
bool json_print(struct json *json);

#endif
