#include "json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void json_reset(struct json *json) { json->length = 0; }

void json_reserve(struct json *json, size_t room) {
    if (json->length + room <= json->cap) return;
    size_t cap = json->cap ? json->cap : 1024;
    while (cap < json->length + room) cap *= 2;
    json->data = must_realloc(json->data, cap);
    json->cap = cap;
}

static void put(struct json *json, const char *bytes, size_t count) {
    json_reserve(json, count);
    memcpy(json->data + json->length, bytes, count);
    json->length += count;
}

void json_item(struct json *json) {
    if (json->length && !strchr("{[:\n", json->data[json->length - 1])) put(json, ",", 1);
}

void json_open(struct json *json, char bracket) { put(json, &bracket, 1); }
void json_close(struct json *json, char bracket) { put(json, &bracket, 1); }
void json_newline(struct json *json) { put(json, "\n", 1); }

void json_raw(struct json *json, const struct json *piece) { put(json, piece->data, piece->length); }

void json_key(struct json *json, const char *key) {
    json_item(json);
    put(json, "\"", 1);
    put(json, key, strlen(key));
    put(json, "\":", 2);
}

void json_key_bytes(struct json *json, const char *key) {
    json_item(json);
    json_text(json, key);
    put(json, ":", 1);
}

void json_int(struct json *json, int64_t value) {
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%lld", (long long)value);
    put(json, digits, (size_t)length);
}

void json_milli(struct json *json, int64_t thousandths) {
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%lld.%03d", (long long)(thousandths / 1000), (int)(thousandths % 1000));
    put(json, digits, (size_t)length);
}

void json_null(struct json *json) { put(json, "null", 4); }

void json_maybe(struct json *json, struct maybe value) {
    if (value.known) json_int(json, value.value);
    else json_null(json);
}

void json_bool(struct json *json, bool value) {
    if (value) put(json, "true", 4);
    else put(json, "false", 5);
}

void json_text(struct json *json, const char *text) {
    if (text) json_bytes(json, text, strlen(text));
    else json_null(json);
}

void json_bytes(struct json *json, const char *bytes, size_t count) {
    static const char hex[] = "0123456789abcdef";
    json_reserve(json, count * 6 + 2);
    char *out = json->data + json->length;
    *out++ = '"';
    for (size_t i = 0; i < count; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        if (byte == '"' || byte == '\\') {
            *out++ = '\\';
            *out++ = (char)byte;
        } else if (byte == '\n') {
            *out++ = '\\';
            *out++ = 'n';
        } else if (byte < 0x20 || byte >= 0x7f) {
            memcpy(out, "\\u00", 4);
            out[4] = hex[byte >> 4];
            out[5] = hex[byte & 15];
            out += 6;
        } else {
            *out++ = (char)byte;
        }
    }
    *out++ = '"';
    json->length = (size_t)(out - json->data);
}

void json_denied(struct json *json, const struct denied *denied) {
    json_key(json, "denied");
    json_open(json, '[');
    for (size_t i = 0; i < denied->count; i++) {
        json_item(json);
        json_open(json, '{');
        json_key(json, "path");
        json_text(json, denied->items[i].path);
        json_key(json, "errno");
        json_text(json, errno_name(denied->items[i].error));
        json_close(json, '}');
    }
    json_close(json, ']');
}

bool json_print(struct json *json) {
    size_t done = 0;
    while (done < json->length) {
        ssize_t wrote = write(STDOUT_FILENO, json->data + done, json->length - done);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return false;
        done += (size_t)wrote;
    }
    json_reset(json);
    return true;
}
