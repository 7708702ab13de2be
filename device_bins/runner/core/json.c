#include "json.h"

#include <string.h>

enum { DEEPEST = 200 };

struct reader {
    const char *text, *at, *end;
    const char *why; /* NULL while all is well */
    int depth;
};

static bool value(struct reader *reader);

static bool no(struct reader *reader, const char *why) {
    if (!reader->why) reader->why = why;
    return false;
}

static bool is_blank(char byte) { return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n'; }

static void skip_blank(struct reader *reader) {
    while (reader->at < reader->end && is_blank(*reader->at)) reader->at++;
}

static bool take(struct reader *reader, char wanted) {
    if (reader->at == reader->end || *reader->at != wanted) return false;
    reader->at++;
    return true;
}

static bool is_digit(const struct reader *reader) {
    return reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9';
}

static bool digits(struct reader *reader) {
    if (!is_digit(reader)) return no(reader, "a digit is missing");
    while (is_digit(reader)) reader->at++;
    return true;
}

static bool number(struct reader *reader) {
    (void)take(reader, '-');
    if (!take(reader, '0') && !digits(reader)) return false;
    if (take(reader, '.') && !digits(reader)) return false;
    if (!take(reader, 'e') && !take(reader, 'E')) return true;
    if (!take(reader, '+')) (void)take(reader, '-');
    return digits(reader);
}

static int hex(char digit) {
    if (digit >= '0' && digit <= '9') return digit - '0';
    if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
    if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
    return -1;
}

/* The number of \uXXXX, whose digits begin at `at`; -1 when it is none. */
static int unit(const char *at, const char *end) {
    int code = 0;
    if (end - at < 4) return -1;
    for (int n = 0; n < 4; n++) {
        if (hex(at[n]) < 0) return -1;
        code = code * 16 + hex(at[n]);
    }
    return code;
}

static bool string(struct reader *reader) {
    if (!take(reader, '"')) return no(reader, "a string is missing");
    while (reader->at < reader->end) {
        char byte = *reader->at++;
        if (byte == '"') return true;
        if ((unsigned char)byte < 0x20) return reader->at--, no(reader, "a control character stands in a string");
        if (byte != '\\') continue;
        if (reader->at == reader->end) break;
        char escape = *reader->at++;
        if (escape == 'u' ? unit(reader->at, reader->end) < 0 : !strchr("\"\\/bfnrt", escape) || !escape)
            return reader->at--, no(reader, "an escape in a string is none");
    }
    return no(reader, "a string has no end");
}

static bool word(struct reader *reader, const char *wanted) {
    size_t length = strlen(wanted);
    if ((size_t)(reader->end - reader->at) < length || memcmp(reader->at, wanted, length)) return false;
    reader->at += length;
    return true;
}

static bool member(struct reader *reader) {
    skip_blank(reader);
    if (!string(reader)) return false;
    skip_blank(reader);
    return take(reader, ':') ? value(reader) : no(reader, "a colon is missing");
}

static bool several(struct reader *reader, char closing, bool (*one)(struct reader *)) {
    if (++reader->depth > DEEPEST) return no(reader, "it is nested too deeply");
    skip_blank(reader);
    while (!take(reader, closing)) {
        if (!one(reader)) return false;
        skip_blank(reader);
        if (take(reader, ',')) {
            skip_blank(reader);
            if (reader->at < reader->end && *reader->at == closing) return no(reader, "nothing follows a comma");
        } else if (reader->at == reader->end || *reader->at != closing) {
            return no(reader, "a comma or a closing bracket is missing");
        }
    }
    reader->depth--;
    return true;
}

static bool value(struct reader *reader) {
    skip_blank(reader);
    if (reader->at == reader->end) return no(reader, "a value is missing");
    if (*reader->at == '"') return string(reader);
    if (take(reader, '{')) return several(reader, '}', member);
    if (take(reader, '[')) return several(reader, ']', value);
    if (*reader->at == '-' || is_digit(reader)) return number(reader);
    return word(reader, "true") || word(reader, "false") || word(reader, "null") || no(reader, "this is no value");
}

struct json json_read(const char *text, size_t length, struct line *wrong) {
    struct reader reader = {.text = text, .at = text, .end = text + length};
    skip_blank(&reader);
    const char *start = reader.at;
    if (value(&reader)) {
        struct json found = {start, (size_t)(reader.at - start)};
        skip_blank(&reader);
        if (reader.at == reader.end) return found;
        (void)no(&reader, "something follows the value");
    }
    if (wrong) {
        int row = 1, column = 1;
        for (const char *at = text; at < reader.at; at++) {
            column = *at == '\n' ? 1 : column + 1;
            row += *at == '\n';
        }
        line_put(wrong, "%s: line %d column %d", reader.why, row, column);
    }
    return (struct json){0};
}

bool json_is_object(struct json value) { return value.text && value.text[0] == '{'; }

static void put_character(struct line *text, int code) {
    char bytes[4];
    size_t length;
    if (code < 0x80) length = 1, bytes[0] = (char)code;
    else if (code < 0x800) length = 2, bytes[0] = (char)(0xc0 | code >> 6);
    else if (code < 0x10000) length = 3, bytes[0] = (char)(0xe0 | code >> 12);
    else length = 4, bytes[0] = (char)(0xf0 | code >> 18);
    for (size_t n = 1; n < length; n++) bytes[n] = (char)(0x80 | (code >> 6 * (length - 1 - n) & 0x3f));
    line_bytes(text, bytes, length);
}

bool json_string(struct json value, struct line *text) {
    if (!value.text || value.text[0] != '"') return false;
    const char *end = value.text + value.length - 1;
    for (const char *at = value.text + 1; at < end; at++) {
        static const char names[] = "bfnrt", meant[] = "\b\f\n\r\t";
        if (*at != '\\') {
            line_bytes(text, at, 1);
            continue;
        }
        const char *name = strchr(names, *++at);
        if (*at != 'u') {
            line_bytes(text, name ? &meant[name - names] : at, 1);
            continue;
        }
        int code = unit(at + 1, end), low = -1;
        at += 4;
        if (code >= 0xd800 && code < 0xdc00 && end - at > 6 && at[1] == '\\' && at[2] == 'u') low = unit(at + 3, end);
        if (low >= 0xdc00 && low < 0xe000) {
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
            at += 6;
        }
        put_character(text, code >= 0xd800 && code < 0xe000 ? 0xfffd : code);
    }
    return true;
}

/* Step through the members of an object that was read before; false at its end. */
static bool next_member(struct reader *reader, struct json *key, struct json *found) {
    skip_blank(reader);
    if (!take(reader, '{')) (void)take(reader, ',');
    skip_blank(reader);
    key->text = reader->at;
    if (reader->at == reader->end || *reader->at != '"' || !string(reader)) return false;
    key->length = (size_t)(reader->at - key->text);
    skip_blank(reader);
    (void)take(reader, ':');
    skip_blank(reader);
    found->text = reader->at;
    (void)value(reader);
    found->length = (size_t)(reader->at - found->text);
    return true;
}

static bool is_named(struct json key, const char *name) {
    struct line text = {0};
    bool same = json_string(key, &text) && !strcmp(line_string(&text), name);
    line_free(&text);
    return same;
}

struct json json_member(struct json object, const char *key) {
    struct reader reader = {.text = object.text, .at = object.text, .end = object.text + object.length};
    struct json name, found, last = {0};
    if (!json_is_object(object)) return last;
    while (next_member(&reader, &name, &found))
        if (is_named(name, key)) last = found;
    return last;
}

bool json_next(struct json list, struct json *item) {
    struct reader reader = {.text = list.text, .at = list.text, .end = list.text + list.length};
    if (!list.text || list.text[0] != '[') return false;
    reader.at = item->text ? item->text + item->length : list.text + 1;
    skip_blank(&reader);
    if (item->text) (void)take(&reader, ',');
    skip_blank(&reader);
    if (reader.at == reader.end || *reader.at == ']') return false;
    item->text = reader.at;
    (void)value(&reader);
    item->length = (size_t)(reader.at - item->text);
    return true;
}

static void put_compact(struct line *out, struct json value) {
    bool quoted = false;
    for (size_t n = 0; n < value.length; n++) {
        char byte = value.text[n];
        if (quoted || !is_blank(byte)) line_bytes(out, &byte, 1);
        if (quoted && byte == '\\') line_bytes(out, &value.text[++n], 1);
        else if (byte == '"') quoted = !quoted;
    }
}

void json_without(struct json object, const char *key, struct line *out) {
    struct reader reader = {.text = object.text, .at = object.text, .end = object.text + object.length};
    struct json name, found;
    const char *between = "";
    line_bytes(out, "{", 1);
    while (json_is_object(object) && next_member(&reader, &name, &found)) {
        if (is_named(name, key)) continue;
        line_put(out, "%s", between);
        line_bytes(out, name.text, name.length);
        line_bytes(out, ": ", 2);
        put_compact(out, found);
        between = ", ";
    }
    line_bytes(out, "}", 1);
}
