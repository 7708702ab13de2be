#include "line.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *room(struct line *line, size_t count) {
    if (line->length + count + 1 > line->cap) {
        size_t cap = line->cap ? line->cap : 4096;
        while (cap < line->length + count + 1) cap *= 2;
        line->data = realloc(line->data, cap);
        if (!line->data) exit(misuse("out of memory (%zu bytes were wanted)", cap));
        line->cap = cap;
    }
    return line->data + line->length;
}

void line_bytes(struct line *line, const char *bytes, size_t count) {
    memcpy(room(line, count), bytes, count);
    line->length += count;
}

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

void line_text_upto(struct line *line, const char *text, size_t count) {
    line_bytes(line, "\"", 1);
    for (size_t i = 0; i < count; i++) {
        unsigned char byte = (unsigned char)text[i];
        if (byte == '"' || byte == '\\') line_put(line, "\\%c", byte);
        else if (byte < 0x20 || byte == 0x7f) line_put(line, "\\u%04x", byte);
        else line_bytes(line, &text[i], 1);
    }
    line_bytes(line, "\"", 1);
}

void line_text(struct line *line, const char *text) {
    if (text) line_text_upto(line, text, strlen(text));
    else line_bytes(line, "null", 4);
}

void line_key(struct line *line, const char *key) { line_put(line, ", \"%s\": ", key); }

void write_all(int fd, const char *bytes, size_t count) {
    while (count) {
        ssize_t wrote = write(fd, bytes, count);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) _exit(1);
        bytes += wrote;
        count -= (size_t)wrote;
    }
}

int misuse(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("synthetic: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return 2;
}
