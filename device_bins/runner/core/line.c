#include "line.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *program = "runner";

void *must_have(void *memory, size_t bytes) {
    if (!memory) exit(misuse("out of memory (%zu bytes were wanted)", bytes));
    return memory;
}

static char *room(struct line *line, size_t count) {
    if (line->length + count + 1 > line->cap) {
        size_t cap = line->cap ? line->cap : 256;
        while (cap < line->length + count + 1) cap *= 2;
        line->data = must_have(realloc(line->data, cap), cap);
        line->cap = cap;
    }
    return line->data + line->length;
}

void line_bytes(struct line *line, const char *bytes, size_t count) {
    char *place = room(line, count);
    if (count) memcpy(place, bytes, count);
    place[count] = '\0';
    line->length += count;
}

void line_clear(struct line *line) {
    line->length = 0;
    if (line->data) line->data[0] = '\0';
}

void line_free(struct line *line) {
    free(line->data);
    *line = (struct line){0};
}

const char *line_string(const struct line *line) { return line->data ? line->data : ""; }

void line_put(struct line *line, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length >= 0) {
        vsnprintf(room(line, (size_t)length), (size_t)length + 1, format, again);
        line->length += (size_t)length;
    }
    va_end(again);
}

/* How many bytes from `text` on are one character of UTF-8; 0 when they are none, and then in `bad` how many bytes
 * one replacement character stands for: as many as could have begun a character. */
static size_t character(const unsigned char *text, size_t count, size_t *bad) {
    unsigned char first = text[0], low = 0x80, high = 0xbf;
    size_t length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    *bad = 1;
    if (first == 0xe0) low = 0xa0;
    if (first == 0xed) high = 0x9f; /* no halves of surrogate pairs */
    if (first == 0xf0) low = 0x90;
    if (first == 0xf4) high = 0x8f;
    for (size_t n = 1; n < length; n++) {
        if (n >= count || text[n] < low || text[n] > high) return *bad = n, 0;
        low = 0x80;
        high = 0xbf;
    }
    return length;
}

void line_text_upto(struct line *line, const char *text, size_t count) {
    line_bytes(line, "\"", 1);
    for (size_t at = 0, bad; at < count;) {
        unsigned char byte = (unsigned char)text[at];
        size_t length = character((const unsigned char *)text + at, count - at, &bad);
        if (byte == '"' || byte == '\\') line_put(line, "\\%c", byte);
        else if (byte < 0x20 || byte == 0x7f) line_put(line, "\\u%04x", byte);
        else if (length) line_bytes(line, text + at, length);
        else line_bytes(line, "\xef\xbf\xbd", 3);
        at += length ? length : bad;
    }
    line_bytes(line, "\"", 1);
}

void line_text(struct line *line, const char *text) {
    if (text) line_text_upto(line, text, strlen(text));
    else line_bytes(line, "null", 4);
}

void line_key(struct line *line, const char *key) { line_put(line, ", \"%s\": ", key); }

void line_amount(struct line *line, const char *key, int64_t amount) {
    line_key(line, key);
    if (amount < 0) line_bytes(line, "null", 4);
    else line_put(line, "%lld", (long long)amount);
}

void line_ms(struct line *line, const char *key, int64_t ns) {
    line_key(line, key);
    if (ns < 0) line_bytes(line, "null", 4);
    else line_put(line, "%.6f", (double)ns / 1e6);
}

void line_ids(struct line *line, const struct ids *ids) {
    line_bytes(line, "[", 1);
    for (size_t n = 0; n < ids->count; n++) line_put(line, "%s%d", n ? ", " : "", (int)ids->items[n]);
    line_bytes(line, "]", 1);
}

void ids_put(struct ids *ids, int32_t id) {
    if (ids->count == ids->cap) {
        ids->cap = ids->cap ? ids->cap * 2 : 64;
        ids->items = must_have(realloc(ids->items, ids->cap * sizeof *ids->items), ids->cap * sizeof *ids->items);
    }
    ids->items[ids->count++] = id;
}

void ids_free(struct ids *ids) {
    free(ids->items);
    *ids = (struct ids){0};
}

bool ids_have(const struct ids *ids, int32_t id) {
    for (size_t n = 0; n < ids->count; n++)
        if (ids->items[n] == id) return true;
    return false;
}

void write_all(int fd, const char *bytes, size_t count) {
    while (count) {
        ssize_t wrote = write(fd, bytes, count);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) _exit(1);
        bytes += wrote;
        count -= (size_t)wrote;
    }
}

void name_program(const char *name) { program = name; }

int misuse(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", program);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return 2;
}
