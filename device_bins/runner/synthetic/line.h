/* One line of JSON for stdout, put together in memory and written in one piece.
 *
 * Strings are passed on byte by byte: what is no UTF-8 in the order is none in the line either.
 */
#ifndef SYNTHETIC_LINE_H
#define SYNTHETIC_LINE_H

#include <stdbool.h>
#include <stddef.h>

struct line {
    char *data;
    size_t length;
    size_t cap;
};

void line_put(struct line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
void line_bytes(struct line *line, const char *bytes, size_t count);
/* A JSON string with its quotes; NULL is null. */
void line_text(struct line *line, const char *text);
void line_text_upto(struct line *line, const char *text, size_t count);
/* `, "key": ` before the next value. */
void line_key(struct line *line, const char *key);

/* Write to a file descriptor until all is taken; a reader that is gone ends the program. */
void write_all(int fd, const char *bytes, size_t count);

/* One sentence on stderr; returns 2. */
int misuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
