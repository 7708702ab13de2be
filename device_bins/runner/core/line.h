/* A growing piece of text: a line of JSON for the event stream, put together in memory and written in one piece.
 *
 * Strings come out as valid UTF-8: what is none becomes U+FFFD, as Python's "replace" does it.
 */
#ifndef RUNNER_LINE_H
#define RUNNER_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct line {
    char *data; /* ends with a NUL that `length` does not count; NULL while nothing was put */
    size_t length;
    size_t cap;
};

/* Token ids. */
struct ids {
    int32_t *items;
    size_t count;
    size_t cap;
};

void line_put(struct line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
void line_bytes(struct line *line, const char *bytes, size_t count);
void line_clear(struct line *line);
void line_free(struct line *line);
/* The text, "" while nothing was put. */
const char *line_string(const struct line *line);
/* A JSON string with its quotes; NULL is null. */
void line_text(struct line *line, const char *text);
void line_text_upto(struct line *line, const char *text, size_t count);
/* `, "key": ` before the next value. */
void line_key(struct line *line, const char *key);
/* `, "key": bytes`; less than nothing is null. */
void line_amount(struct line *line, const char *key, int64_t amount);
/* `, "key": milliseconds`; less than nothing is null. */
void line_ms(struct line *line, const char *key, int64_t ns);
/* A JSON list. */
void line_ids(struct line *line, const struct ids *ids);

void ids_put(struct ids *ids, int32_t id);
void ids_free(struct ids *ids);
bool ids_have(const struct ids *ids, int32_t id);

/* Memory, or the end of the program with a sentence. */
void *must_have(void *memory, size_t bytes);

/* Write to a file descriptor until all is taken; a reader that is gone ends the program. */
void write_all(int fd, const char *bytes, size_t count);

/* One sentence on stderr after the program's name; returns 2. */
int misuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
void name_program(const char *name);

#ifdef __cplusplus
}
#endif

#endif
