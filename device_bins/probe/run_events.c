/* The events of a run, as lines. */
#include "run.h"

#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static void begin(struct run *run, const char *event) {
    int64_t mono = now_ns();
    sink_begin(&run->sink, event, mono, clock_ns(CLOCK_BOOTTIME));
}

static void put_int(struct run *run, const char *key, int64_t value) {
    json_key(&run->sink.line, key);
    json_int(&run->sink.line, value);
}

static void put_maybe(struct run *run, const char *key, struct maybe value) {
    json_key(&run->sink.line, key);
    json_maybe(&run->sink.line, value);
}

static void put_array(struct run *run, const char *key, const struct maybe *values, size_t count) {
    json_key(&run->sink.line, key);
    json_open(&run->sink.line, '[');
    for (size_t i = 0; i < count; i++) {
        json_item(&run->sink.line);
        json_maybe(&run->sink.line, values[i]);
    }
    json_close(&run->sink.line, ']');
}

void emit_start(struct run *run, int64_t mono_ns, int64_t boot_ns) {
    char boot_id[64];
    struct json *line = &run->sink.line;
    bool known = read_boot_id(run->options->roots.procfs, boot_id, sizeof boot_id, NULL);
    sink_begin(&run->sink, "start", mono_ns, boot_ns);
    put_maybe(run, "pid", run->child > 0 ? some(run->child) : none());
    put_int(run, "probe_pid", getpid());
    json_key(line, "boot_id");
    json_text(line, known ? boot_id : NULL);
    json_key(line, "argv");
    json_open(line, '[');
    for (char **word = run->options->command.argv; *word; word++) {
        json_item(line);
        json_text(line, *word);
    }
    json_close(line, ']');
    put_int(run, "interval_ms", run->options->interval_ms);
    put_maybe(run, "deadline_ms", run->options->deadline_ms);
    put_maybe(run, "silence_ms", run->options->silence_ms);
    sink_end(&run->sink);
}

void emit_sensors(struct run *run) {
    struct json *line = &run->sink.line;
    begin(run, "sensors");
    json_key(line, "cpus");
    json_open(line, '[');
    for (size_t i = 0; i < run->sensors.cpu_count; i++) {
        json_item(line);
        json_int(line, run->sensors.cpus[i]);
    }
    json_close(line, ']');
    json_key(line, "zones");
    json_open(line, '[');
    for (size_t i = 0; i < run->sensors.zone_count; i++) {
        json_item(line);
        json_open(line, '{');
        put_int(run, "zone", run->sensors.zones[i].number);
        json_key(line, "type");
        json_text(line, run->sensors.zones[i].type);
        json_close(line, '}');
    }
    json_close(line, ']');
    json_key(line, "gpu_counter");
    json_text(line, gpu_name(&run->gpu));
    json_denied(line, &run->sensors.denied);
    sink_end(&run->sink);
}

int64_t millis(struct timeval time) { return (int64_t)time.tv_sec * 1000 + time.tv_usec / 1000; }

void emit_end(struct run *run) {
    struct json *line = &run->sink.line;
    begin(run, "end");
    put_maybe(run, "exit_code", run->exit_code);
    put_maybe(run, "signal", run->signal_number);
    json_key(line, "why");
    json_text(line, run->why);
    json_key(line, "errno");
    json_text(line, run->error ? errno_name(run->error) : NULL);
    bool measured = run->exit_code.known || run->signal_number.known;
    put_maybe(run, "maxrss_bytes", measured && run->used.ru_maxrss ? some((int64_t)run->used.ru_maxrss * 1024) : none());
    put_maybe(run, "utime_ms", measured ? some(millis(run->used.ru_utime)) : none());
    put_maybe(run, "stime_ms", measured ? some(millis(run->used.ru_stime)) : none());
    put_maybe(run, "minflt", measured ? some(run->used.ru_minflt) : none());
    put_maybe(run, "majflt", measured ? some(run->used.ru_majflt) : none());
    put_maybe(run, "survivors", run->adopts ? some((int64_t)run->survivors) : none());
    put_int(run, "probe_cpu_ms", clock_ns(CLOCK_PROCESS_CPUTIME_ID) / MS);
    put_int(run, "samples", run->samples);
    json_key(line, "file_error");
    json_text(line, run->sink.file_error ? errno_name(run->sink.file_error) : NULL);
    json_key(line, "trip");
    if (run->tripped) {
        json_open(line, '{');
        put_int(run, "zone", run->tripped->number);
        json_key(line, "type");
        json_text(line, run->tripped->type);
        put_int(run, "milli_c", run->tripped_at);
        json_close(line, '}');
    } else {
        json_null(line);
    }
    sink_end_last(&run->sink);
}

void emit_output(struct run *run, int fd, const char *bytes, size_t count) {
    begin(run, "out");
    put_int(run, "fd", fd);
    json_key(&run->sink.line, "data");
    json_bytes(&run->sink.line, bytes, count);
    sink_end(&run->sink);
}

static void put_affinity(struct json *line, const struct affinity *affinity) {
    json_key(line, "threads_allowed");
    if (!affinity->known) {
        json_null(line);
        return;
    }
    json_open(line, '[');
    for (size_t i = 0; i < affinity->count; i++) {
        json_item(line);
        json_text(line, affinity->lists[i]);
    }
    json_close(line, ']');
}

void emit_sample(struct run *run, const struct usage *usage, struct maybe available, const struct slow *slow) {
    begin(run, "sample");
    put_int(run, "processes", usage->processes);
    put_maybe(run, "rss_bytes", usage->rss_bytes);
    put_maybe(run, "anon_bytes", usage->anon_bytes);
    put_maybe(run, "swap_bytes", usage->swap_bytes);
    put_maybe(run, "hwm_bytes", usage->hwm_bytes);
    put_maybe(run, "threads", usage->threads);
    put_int(run, "utime_ms", usage->cpu_user_ms + millis(run->used.ru_utime));
    put_int(run, "stime_ms", usage->cpu_system_ms + millis(run->used.ru_stime));
    put_maybe(run, "mem_available_bytes", available);
    put_array(run, "cur_khz", run->sensors.current_khz, run->sensors.cpu_count);
    put_array(run, "cap_khz", run->sensors.cap_khz, run->sensors.cpu_count);
    put_array(run, "milli_c", run->sensors.milli_c, run->sensors.zone_count);
    put_maybe(run, "gpu_bytes", slow->gpu_bytes);
    if (run->options->command.pinned) {
        put_maybe(run, "cpu", usage->cpu);
        json_key(&run->sink.line, "cpus_allowed");
        json_text(&run->sink.line, usage->allowed[0] ? usage->allowed : NULL);
        put_affinity(&run->sink.line, &slow->affinity);
    }
    run->samples++;
    sink_end(&run->sink);
}
