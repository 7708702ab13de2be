#include "model_files.h"

#include "graph.h"
#include "json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LFS_POINTER "version https://git-lfs"

/* A file in memory, of size 0 when it is not there; the pages are the kernel's, not the program's. */
struct content {
    char *data;
    size_t size;
};

static bool unreadable(struct trouble *trouble, const char *stage, const char *path, const char *what) {
    trouble_say(trouble, stage, "%s (%s) cannot be read: %s", path, what, strerror(errno));
    return false;
}

static bool check_file(const char *path, const char *what, const char *stage, int64_t *size, struct trouble *trouble) {
    char start[sizeof LFS_POINTER - 1];
    struct stat found;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_LARGEFILE);
    if (fd < 0) return unreadable(trouble, stage, path, what);
    ssize_t got = read(fd, start, sizeof start);
    bool known = got >= 0 && !fstat(fd, &found);
    int error = errno;
    close(fd);
    errno = error;
    if (!known) return unreadable(trouble, stage, path, what);
    if (size) *size = found.st_size;
    if (!got) return trouble_say(trouble, stage, "%s (%s) is empty", path, what), false;
    if (got == (ssize_t)sizeof start && !memcmp(start, LFS_POINTER, sizeof start))
        return trouble_say(trouble, stage, "%s (%s) is a Git LFS pointer, not the file itself", path, what), false;
    return true;
}

static bool map_file(const char *path, const char *what, const char *stage, struct content *content,
                     struct trouble *trouble) {
    struct stat found;
    if (!check_file(path, what, stage, NULL, trouble)) return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &found)) return unreadable(trouble, stage, path, what);
    content->size = (size_t)found.st_size;
    void *data = mmap(NULL, content->size, PROT_READ, MAP_PRIVATE, fd, 0);
    content->data = data;
    int error = errno;
    close(fd);
    errno = error;
    return data != MAP_FAILED || unreadable(trouble, stage, path, what);
}

static bool read_object(const char *path, const char *stage, struct content *content, struct json *object,
                        struct trouble *trouble) {
    struct line wrong = {0};
    if (!map_file(path, "configuration", stage, content, trouble)) return false;
    *object = json_read(content->data, content->size, &wrong);
    if (!object->text) trouble_say(trouble, stage, "%s is not JSON: %s", path, line_string(&wrong));
    else if (!json_is_object(*object)) trouble_say(trouble, stage, "%s is not a JSON object", path);
    line_free(&wrong);
    return json_is_object(*object);
}

/* The path that a key names beside the configuration: as the model's own configuration says, else the one beside it. */
static bool path_of(const char *config, const char *key, const char *usual, const struct json objects[2],
                    struct line *path, struct trouble *trouble) {
    struct json named = {0};
    for (size_t n = 0; n < 2 && !named.text; n++) named = json_member(objects[n], key);
    struct line name = {0};
    if (!named.text) line_put(&name, "%s", usual);
    else if (!json_string(named, &name))
        return trouble_say(trouble, "config", "%s: %s is not a text", config, key), false;
    const char *slash = strrchr(config, '/');
    line_clear(path);
    if (slash && line_string(&name)[0] != '/') line_bytes(path, config, (size_t)(slash - config) + 1);
    line_put(path, "%s", line_string(&name));
    line_free(&name);
    return true;
}

static bool check_weights(const char *graph_path, const char *weight_path, struct trouble *trouble) {
    struct content graph = {0};
    int64_t size = 0;
    if (!map_file(graph_path, "llm_model", "load", &graph, trouble)) return false;
    int64_t wanted = graph_weight_bytes((const uint8_t *)graph.data, graph.size);
    munmap(graph.data, graph.size);
    if (!check_file(weight_path, "llm_weight", "load", &size, trouble)) return false;
    if (wanted < 0) return trouble_say(trouble, "load", "%s (llm_model) is not an MNN graph", graph_path), false;
    if (size >= wanted) return true;
    trouble_say(trouble, "load", "%s (llm_weight) is cut off: it has %lld bytes and the graph reads %lld", weight_path,
                (long long)size, (long long)wanted);
    return false;
}

/* The next word of a line as a whole number; false at the line's end and for what is none. "None" is -1: some exporters
 * write it for an end that a model does not have. */
static bool next_number(const char **at, const char *end, long long *value) {
    char word[24];
    size_t length = 0;
    while (*at < end && (**at == ' ' || **at == '\t' || **at == '\r')) ++*at;
    for (; *at < end && length + 1 < sizeof word && !strchr(" \t\r\n", **at) && **at; ++*at) word[length++] = **at;
    word[length] = '\0';
    char *rest = word;
    *value = strcmp(word, "None") ? strtoll(word, &rest, 10) : -1;
    return length && (*value == -1 || !*rest);
}

/* All of MNN's tokenizer files begin with the same three lines: a magic number; how many special ids, stops and prefix
 * ids there are; and these. */
static bool read_stops(const char *data, size_t size, struct ids *stops) {
    const char *at = data, *end = data + size;
    long long numbers[3], magic, one;
    if (!next_number(&at, end, &magic) || magic != 430) return false;
    at = memchr(at, '\n', (size_t)(end - at));
    for (size_t n = 0; n < 3; n++)
        if (!at || (n == 0 && ++at >= end) || !next_number(&at, end, &numbers[n])) return false;
    at = memchr(at, '\n', (size_t)(end - at));
    const char *line_end = at ? memchr(at + 1, '\n', (size_t)(end - at - 1)) : NULL;
    if (!at++ || numbers[0] < 0 || numbers[1] < 0) return false;
    for (long long n = 0; n < numbers[0] + numbers[1] && next_number(&at, line_end ? line_end : end, &one); n++)
        if (n >= numbers[0] && one >= 0 && one <= INT32_MAX) ids_put(stops, (int32_t)one);
    return true;
}

static bool check_tokenizer(const char *path, struct ids *stops, struct trouble *trouble) {
    struct content content = {0};
    if (!map_file(path, "tokenizer_file", "load", &content, trouble)) return false;
    bool good = read_stops(content.data, content.size, stops);
    munmap(content.data, content.size);
    if (!good) trouble_say(trouble, "load", "%s (tokenizer_file) is not an MNN tokenizer", path);
    return good;
}

static bool check_all(const char *config, struct content contents[2], struct model_files *files,
                      struct trouble *trouble) {
    struct json objects[2] = {{0}}; /* the model's own configuration counts first */
    struct line path = {0}, weight = {0};
    bool good = read_object(config, "config", &contents[1], &objects[1], trouble) &&
                path_of(config, "llm_config", "llm_config.json", objects, &path, trouble) &&
                read_object(line_string(&path), "load", &contents[0], &objects[0], trouble) &&
                path_of(config, "llm_model", "llm.mnn", objects, &path, trouble) &&
                path_of(config, "llm_weight", "llm.mnn.weight", objects, &weight, trouble) &&
                check_weights(line_string(&path), line_string(&weight), trouble) &&
                path_of(config, "tokenizer_file", "tokenizer.txt", objects, &path, trouble) &&
                check_tokenizer(line_string(&path), &files->stops, trouble);
    if (good && !json_member(objects[0], "tie_embeddings").text && !json_member(objects[1], "tie_embeddings").text)
        good = path_of(config, "embedding_file", "embeddings_bf16.bin", objects, &path, trouble) &&
               check_file(line_string(&path), "embedding_file", "load", NULL, trouble);
    line_free(&path);
    line_free(&weight);
    return good;
}

bool check_model(const char *model, struct model_files *files, struct trouble *trouble) {
    struct content contents[2] = {{0}};
    struct stat found;
    line_put(&files->config, "%s%s", model, !stat(model, &found) && S_ISDIR(found.st_mode) ? "/config.json" : "");
    bool good = check_all(line_string(&files->config), contents, files, trouble);
    for (size_t n = 0; n < 2; n++)
        if (contents[n].data && contents[n].data != MAP_FAILED) munmap(contents[n].data, contents[n].size);
    return good;
}

void model_files_free(struct model_files *files) {
    line_free(&files->config);
    ids_free(&files->stops);
}
