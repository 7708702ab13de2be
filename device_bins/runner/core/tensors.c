#include "clock.h"
#include "process.h"
#include "run.h"
#include "samples.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int by_name(const void *first, const void *second) {
    return strcmp(((const struct array *)first)->name, ((const struct array *)second)->name);
}

static bool write_output(const struct run *run, const char *file, const struct array *array, struct trouble *trouble) {
    struct line path = {0};
    line_put(&path, "%s/%s", run->options.outputs, file);
    FILE *out = fopen(path.data, "wb");
    bool good = out && fwrite(array->bytes, 1, array->size, out) == array->size;
    int error = errno;
    if (out && fclose(out)) good = false, error = errno;
    if (!good) trouble_say(trouble, "output", "%s cannot be written: %s", path.data, strerror(error));
    line_free(&path);
    return good;
}

/* Write the outputs of the last run, in the order of their names, and tell of each. */
static bool write_outputs(struct run *run, const struct sample *sample, struct trouble *trouble) {
    struct engine *engine = run->engine;
    struct array *arrays = NULL, array = {0};
    size_t count = 0;
    while (engine->tensor_output(engine, count, &array)) {
        size_t bytes = (count + 1) * sizeof *arrays;
        arrays = must_have(realloc(arrays, bytes), bytes);
        arrays[count++] = array;
        array = (struct array){0};
    }
    if (!count) return trouble_say(trouble, "output", "the model has no outputs"), false;
    qsort(arrays, count, sizeof *arrays, by_name);
    bool good = true;
    for (size_t n = 0; good && n < count; n++) {
        struct line file = {0}, *line = &run->line;
        line_put(&file, "%s.%zu.bin", sample->name, n);
        good = arrays[n].dtype != NULL;
        if (!good) trouble_say(trouble, "output", "output %s has a type that is not known here", arrays[n].name);
        good = good && write_output(run, file.data, &arrays[n], trouble);
        if (good) {
            const char *texts[][2] = {
                {"sample", sample->name}, {"name", arrays[n].name}, {"dtype", arrays[n].dtype}, {"file", file.data}};
            event_begin(run, "output");
            for (size_t at = 0; at < sizeof texts / sizeof *texts; at++) {
                line_key(line, texts[at][0]);
                line_text(line, texts[at][1]);
            }
            line_key(line, "shape");
            for (size_t axis = 0; axis < arrays[n].rank; axis++)
                line_put(line, "%s%lld", axis ? ", " : "[", (long long)arrays[n].shape[axis]);
            line_put(line, arrays[n].rank ? "]" : "[]");
            event_end(run, DECODE);
        }
        line_free(&file);
    }
    free(arrays);
    return good;
}

static bool infer(struct run *run, int64_t index, const char *kind, const struct sample *sample,
                  struct trouble *trouble) {
    struct line *line = &run->line;
    int64_t begun = now_ns();
    if (!run->engine->tensor_run(run->engine, trouble)) return with_complaint(&trouble->message), false;
    int64_t took = now_ns() - begun;
    event_begin(run, "inference");
    line_amount(line, "index", index);
    line_key(line, "kind");
    line_text(line, kind);
    line_key(line, "sample");
    line_text(line, sample->name);
    line_ms(line, "latency_ms", took);
    line_amount(line, "begun_ns", begun);
    line_amount(line, "rss_bytes", resident_bytes());
    event_end(run, DECODE);
    return true;
}

bool run_samples(struct run *run, const struct samples *samples, struct trouble *trouble) {
    const struct options *options = &run->options;
    int64_t index = 0;
    if (mkdir(options->outputs, 0777) && errno != EEXIST)
        return trouble_say(trouble, "output", "%s cannot be made: %s", options->outputs, strerror(errno)), false;
    for (; index < options->warmups + options->repeats; index++)
        if (!infer(run, index, index < options->warmups ? "warmup" : "timed", &samples->items[0], trouble)) return false;
    for (size_t n = 0; n < samples->count; n++) {
        const struct sample *sample = &samples->items[n];
        if (samples->count > 1 && !run->engine->tensor_fit(run->engine, sample, trouble)) return false;
        if (!infer(run, index++, "check", sample, trouble) || !write_outputs(run, sample, trouble)) return false;
    }
    return true;
}
