#include "samples.h"

#include "engine.h"
#include "json.h"
#include "line.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const struct {
    const char *word;
    size_t bytes;
} dtypes[] = {{"float32", 4}, {"int32", 4}, {"uint8", 1}, {"int8", 1}};

const char *known_dtype(const char *word) {
    for (size_t n = 0; n < sizeof dtypes / sizeof *dtypes; n++)
        if (!strcmp(word, dtypes[n].word)) return dtypes[n].word;
    return NULL;
}

static size_t bytes_of(const char *dtype) {
    for (size_t n = 0; n < sizeof dtypes / sizeof *dtypes; n++)
        if (!strcmp(dtype, dtypes[n].word)) return dtypes[n].bytes;
    return 0;
}

/* A file's content, as long as it is said to be where `size` is not -1. */
static void *read_file(const char *path, int64_t size, size_t *length, struct trouble *trouble) {
    struct stat found;
    FILE *file = fopen(path, "rb");
    if (!file || fstat(fileno(file), &found)) {
        trouble_say(trouble, "input", "%s cannot be read: %s", path, strerror(errno));
        if (file) fclose(file);
        return NULL;
    }
    *length = (size_t)found.st_size;
    char *content = must_have(malloc(*length + 1), *length + 1);
    bool whole = fread(content, 1, *length, file) == *length;
    fclose(file);
    if (whole && (size < 0 || (size_t)size == *length)) return content;
    if (!whole) trouble_say(trouble, "input", "%s cannot be read whole", path);
    else trouble_say(trouble, "input", "%s has %zu bytes, its shape and type have %lld", path, *length, (long long)size);
    free(content);
    return NULL;
}

/* A member that is a text; NULL after trouble. */
static const char *text_of(struct json object, const char *key, const char *folder, struct trouble *trouble) {
    struct line text = {0};
    if (json_string(json_member(object, key), &text) && text.length && strlen(text.data) == text.length)
        return text.data;
    trouble_say(trouble, "input", "%s is no folder of samples: %s is missing or no text", folder, key);
    line_free(&text);
    return NULL;
}

static bool read_shape(struct json list, struct array *array, int64_t *elements) {
    struct json item = {0};
    *elements = 1;
    while (json_next(list, &item)) {
        char digits[24] = "";
        int64_t extent;
        if (item.length >= sizeof digits || array->rank == MOST_AXES) return false;
        memcpy(digits, item.text, item.length);
        if (!read_whole(digits, 0, &extent) || extent > INT32_MAX) return false;
        if (__builtin_mul_overflow(*elements, extent, elements)) return false;
        array->shape[array->rank++] = extent;
    }
    return list.text && list.text[0] == '[' && *elements <= INT32_MAX;
}

static bool read_array(const char *folder, struct json told, struct array *array, struct trouble *trouble) {
    const char *file, *dtype;
    int64_t elements;
    struct line path = {0};
    if (!(array->name = text_of(told, "name", folder, trouble)) || !(file = text_of(told, "file", folder, trouble)) ||
        !(dtype = text_of(told, "dtype", folder, trouble)))
        return false;
    if (!(array->dtype = known_dtype(dtype)))
        return trouble_say(trouble, "input", "%s is %s, which the engine does not take", array->name, dtype), false;
    if (!read_shape(json_member(told, "shape"), array, &elements))
        return trouble_say(trouble, "input", "%s is no folder of samples: the shape of %s is none", folder, array->name),
               false;
    line_put(&path, "%s/%s", folder, file);
    array->bytes = read_file(path.data, elements * (int64_t)bytes_of(array->dtype), &array->size, trouble);
    line_free(&path);
    return array->bytes != NULL;
}

static bool read_sample(const char *folder, struct json told, struct sample *sample, struct trouble *trouble) {
    struct json tensors = json_member(told, "tensors"), item = {0};
    size_t count = 0;
    if (!(sample->name = text_of(told, "name", folder, trouble))) return false;
    while (json_next(tensors, &item)) count++;
    if (!count) return trouble_say(trouble, "input", "sample %s of %s holds no array", sample->name, folder), false;
    sample->arrays = must_have(calloc(count, sizeof *sample->arrays), count * sizeof *sample->arrays);
    for (item = (struct json){0}; json_next(tensors, &item); sample->count++)
        if (!read_array(folder, item, &sample->arrays[sample->count], trouble)) return false;
    return true;
}

bool read_samples(const char *folder, struct samples *samples, struct trouble *trouble) {
    struct line path = {0}, wrong = {0};
    size_t length = 0, count = 0;
    line_put(&path, "%s/index.json", folder);
    char *content = read_file(path.data, -1, &length, trouble);
    if (!content) return line_free(&path), false;
    struct json index = json_read(content, length, &wrong), item = {0};
    struct json list = json_member(index, "samples");
    while (json_next(list, &item)) count++;
    bool good = count > 0;
    if (!index.text) trouble_say(trouble, "input", "%s is not JSON: %s", path.data, line_string(&wrong));
    else if (!count) trouble_say(trouble, "input", "%s holds no sample", folder);
    else samples->items = must_have(calloc(count, sizeof *samples->items), count * sizeof *samples->items);
    for (item = (struct json){0}; good && json_next(list, &item); samples->count++)
        good = read_sample(folder, item, &samples->items[samples->count], trouble);
    free(content);
    line_free(&path);
    line_free(&wrong);
    return good;
}
