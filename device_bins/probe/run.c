/* probe run: supervise one command, from its start to the death of its last descendant. */
#include "family.h"
#include "sensors.h"
#include "sink.h"
#include "spawn.h"
#include "util.h"
#include "verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    CHUNK = 16384,
    MS = 1000000,
    GRACE_MS = 500,        /* between SIGTERM and SIGKILL */
    KILL_AGAIN_MS = 20,    /* orphans become ours one generation at a time */
    KILL_PATIENCE_MS = 2000,
    DRAIN_MS = 200,        /* for output of the dead, when a stranger holds the pipe open */
    ZONES_EVERY_MS = 1000, /* a phone has up to 90 zones, some slow to read, and heat is slow too */
    STAMP_EVERY_US = 300,  /* while sensors are read, look for output this often */
    FINISH_MS = 5000,      /* for a slow stdout to take the last events */
};

struct options {
    struct roots roots;
    const char *folder;
    int64_t interval_ms;
    struct maybe deadline_ms;
    struct command command;
};

enum phase { RUNNING, ENDING, KILLING, DRAINING, DONE };

struct run {
    const struct options *options;
    struct sink sink;
    struct sensors sensors;
    struct family family;
    int meminfo;
    pid_t child;
    int pipes[2]; /* the child's stdout and stderr; -1 at their end */
    enum phase phase;
    const char *why;
    int error; /* of a failed spawn */
    bool adopts; /* orphaned descendants become our children, so `childless` means that all are dead */
    bool childless;
    struct maybe exit_code, signal_number;
    struct rusage used;
    size_t survivors;
    int64_t samples;
    int64_t deadline_ns, sample_ns, zones_ns, step_ns, limit_ns, stamped_ns;
};

static volatile sig_atomic_t hung_up, told_to_stop;

static void on_signal(int number) {
    if (number == SIGHUP) hung_up = 1;
    else if (number != SIGCHLD) told_to_stop = 1; /* SIGCHLD only interrupts the wait */
}

static int64_t now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }

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

/* ---- events ---- */

static void emit_start(struct run *run, int64_t mono_ns, int64_t boot_ns) {
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
    sink_end(&run->sink);
}

static void emit_sensors(struct run *run) {
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
    json_denied(line, &run->sensors.denied);
    sink_end(&run->sink);
}

static int64_t millis(struct timeval time) { return (int64_t)time.tv_sec * 1000 + time.tv_usec / 1000; }

static void emit_end(struct run *run) {
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
    sink_end(&run->sink);
}

/* ---- output of the child ---- */

static void read_pipe(struct run *run, int which) {
    char chunk[CHUNK];
    ssize_t got = read(run->pipes[which], chunk, sizeof chunk);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
        close(run->pipes[which]);
        run->pipes[which] = -1;
        return;
    }
    begin(run, "out");
    put_int(run, "fd", which + 1);
    json_key(&run->sink.line, "data");
    json_bytes(&run->sink.line, chunk, (size_t)got);
    sink_end(&run->sink);
}

/* A slow reader of our stdout slows the child as any full pipe does; at the end all is read nevertheless. */
static bool takes_output(const struct run *run) {
    return run->phase != RUNNING || sink_waiting(&run->sink) < SINK_SLOW;
}

static void read_ready(struct run *run, const struct pollfd *pipes) {
    for (int i = 0; i < 2; i++)
        if (run->pipes[i] >= 0 && pipes[i].revents) read_pipe(run, i);
}

/* Called between two sensors. */
static void breathe(void *context) {
    struct run *run = context;
    int64_t now = now_ns();
    if (now - run->stamped_ns < STAMP_EVERY_US * 1000) return;
    run->stamped_ns = now;
    if (!takes_output(run)) return;
    struct pollfd pipes[2] = {{.fd = run->pipes[0], .events = POLLIN}, {.fd = run->pipes[1], .events = POLLIN}};
    if (poll(pipes, 2, 0) > 0) read_ready(run, pipes);
}

/* ---- samples ---- */

static struct maybe available_memory(const struct run *run) {
    char text[512]; /* MemAvailable is the third line */
    if (run->meminfo < 0 || read_again(run->meminfo, text, sizeof text) <= 0) return none();
    return find_field(text, "MemAvailable", 1024);
}

static void sample(struct run *run, bool with_zones) {
    struct usage usage;
    int64_t now = now_ns();
    bool zones = with_zones || now >= run->zones_ns;
    run->stamped_ns = now;
    /* the slow ones first: what is stamped closest is what changes fastest */
    if (zones) {
        run->zones_ns = now + (int64_t)ZONES_EVERY_MS * MS;
        sensors_read_zones(&run->sensors, breathe, run);
    } else {
        sensors_forget_zones(&run->sensors); /* null is "not read now"; an old value would be a lie */
    }
    sensors_read_clocks(&run->sensors, zones, breathe, run);
    struct maybe available = available_memory(run);
    family_measure(&run->family, &usage, now);
    begin(run, "sample");
    put_int(run, "processes", usage.processes);
    put_maybe(run, "rss_bytes", usage.rss_bytes);
    put_maybe(run, "anon_bytes", usage.anon_bytes);
    put_maybe(run, "swap_bytes", usage.swap_bytes);
    put_maybe(run, "hwm_bytes", usage.hwm_bytes);
    put_maybe(run, "threads", usage.threads);
    put_int(run, "utime_ms", usage.cpu_user_ms + millis(run->used.ru_utime));
    put_int(run, "stime_ms", usage.cpu_system_ms + millis(run->used.ru_stime));
    put_maybe(run, "mem_available_bytes", available);
    put_array(run, "cur_khz", run->sensors.current_khz, run->sensors.cpu_count);
    put_array(run, "cap_khz", run->sensors.cap_khz, run->sensors.cpu_count);
    put_array(run, "milli_c", run->sensors.milli_c, run->sensors.zone_count);
    run->samples++;
    sink_end(&run->sink);
}

/* ---- the end ---- */

static void enter(struct run *run, enum phase phase, int64_t now) {
    static const int64_t limits_ms[] = {0, GRACE_MS, KILL_PATIENCE_MS, DRAIN_MS, 0};
    run->phase = phase;
    run->limit_ns = now + limits_ms[phase] * MS;
    run->step_ns = now;
}

static void stop(struct run *run, const char *why) {
    if (run->phase != RUNNING) return;
    run->why = why;
    enter(run, ENDING, now_ns());
    (void)kill(-run->child, SIGTERM);
    family_signal(&run->family, SIGTERM);
}

static void add_usage(struct rusage *sum, const struct rusage *more) {
    timeradd(&sum->ru_utime, &more->ru_utime, &sum->ru_utime);
    timeradd(&sum->ru_stime, &more->ru_stime, &sum->ru_stime);
    sum->ru_minflt += more->ru_minflt;
    sum->ru_majflt += more->ru_majflt;
    if (more->ru_maxrss > sum->ru_maxrss) sum->ru_maxrss = more->ru_maxrss;
}

static void child_died(struct run *run) {
    if (!run->error) sample(run, true); /* its times can be read until it is waited for */
    if (run->phase != RUNNING) return;
    run->why = "exit";
    (void)kill(-run->child, SIGKILL); /* before waiting: the group's number is still ours */
    enter(run, KILLING, now_ns());
}

/* Wait for all that is dead: the child, and orphans that became ours. */
static void reap(struct run *run) {
    for (;;) {
        siginfo_t dead = {0};
        struct rusage used;
        int status;
        if (waitid(P_ALL, 0, &dead, WEXITED | WNOHANG | WNOWAIT)) {
            run->childless = errno == ECHILD;
            return;
        }
        if (!dead.si_pid) return;
        bool main = dead.si_pid == run->child;
        if (main) child_died(run);
        if (wait4(dead.si_pid, &status, 0, &used) != dead.si_pid) return;
        add_usage(&run->used, &used);
        if (main && WIFEXITED(status)) run->exit_code = some(WEXITSTATUS(status));
        if (main && WIFSIGNALED(status)) run->signal_number = some(WTERMSIG(status));
    }
}

static void watch(struct run *run, int64_t now) {
    if (run->phase <= ENDING && now >= run->sample_ns) {
        sample(run, false);
        run->sample_ns += run->options->interval_ms * MS;
        if (run->sample_ns < now) run->sample_ns = now + run->options->interval_ms * MS;
    }
    /* after the sample: writing it may have shown that nobody reads, and nothing would wake us for that again */
    if (run->sink.out_broken || hung_up) stop(run, "hangup");
    if (sink_waiting(&run->sink) > SINK_STALLED) stop(run, "hangup");
    if (told_to_stop) stop(run, "stopped");
    if (now >= run->deadline_ns) stop(run, "deadline");
}

/* Do what is due. The order of phases: RUNNING, ENDING (has SIGTERM), KILLING, DRAINING, DONE. */
static void step(struct run *run) {
    reap(run);
    int64_t now = now_ns();
    watch(run, now);
    if (run->childless && run->phase < DRAINING) enter(run, DRAINING, now);
    if (run->phase == ENDING && now >= run->limit_ns) enter(run, KILLING, now);
    if (run->phase == KILLING && now >= run->step_ns) {
        run->step_ns = now + (int64_t)KILL_AGAIN_MS * MS;
        run->survivors = family_signal(&run->family, SIGKILL);
        if (now >= run->limit_ns) enter(run, DRAINING, now);
    }
    if (run->childless) run->survivors = 0;
    if (run->phase == DRAINING && ((run->pipes[0] < 0 && run->pipes[1] < 0) || now >= run->limit_ns)) run->phase = DONE;
}

static int64_t wake_ns(const struct run *run) {
    int64_t wake = run->phase == KILLING ? run->step_ns : run->phase == RUNNING ? run->deadline_ns : run->limit_ns;
    return run->phase <= ENDING && run->sample_ns < wake ? run->sample_ns : wake;
}

static void await(struct run *run) {
    sigset_t open;
    sigemptyset(&open);
    bool reads = takes_output(run);
    struct pollfd fds[3] = {
        {.fd = reads ? run->pipes[0] : -1, .events = POLLIN},
        {.fd = reads ? run->pipes[1] : -1, .events = POLLIN},
        {.fd = run->sink.out_broken ? -1 : STDOUT_FILENO, .events = sink_waiting(&run->sink) ? POLLOUT : 0},
    };
    int64_t left = wake_ns(run) - now_ns();
    if (left < 0) left = 0;
    struct timespec timeout = {.tv_sec = (time_t)(left / 1000000000), .tv_nsec = (long)(left % 1000000000)};
    if (ppoll(fds, 3, &timeout, &open) <= 0) return;
    read_ready(run, fds);
    if (fds[2].revents & (POLLERR | POLLHUP | POLLNVAL)) run->sink.out_broken = true;
    sink_flush(&run->sink);
}

static void catch_signals(sigset_t *before) {
    static const int caught[] = {SIGHUP, SIGINT, SIGTERM, SIGQUIT, SIGCHLD};
    struct sigaction action = {.sa_handler = on_signal};
    sigset_t blocked;
    sigemptyset(&blocked);
    for (size_t i = 0; i < sizeof caught / sizeof *caught; i++) {
        sigaddset(&blocked, caught[i]);
        (void)sigaction(caught[i], &action, NULL);
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    sigprocmask(SIG_BLOCK, &blocked, before); /* they come in only while we wait, so none is missed */
}

static int supervise(struct options *options) {
    static struct run run;
    struct spawned spawned;
    run.options = options;
    int refused = sink_open(&run.sink, options->folder);
    if (refused) return refused;
    catch_signals(&options->command.mask);
    run.adopts = !prctl(PR_SET_CHILD_SUBREAPER, 1); /* Linux 3.4; qemu-user has it not */
    char *meminfo = must_format("%s/meminfo", options->roots.procfs);
    run.meminfo = open(meminfo, O_RDONLY | O_CLOEXEC);
    if (run.meminfo < 0) note_denied(&run.sensors.denied, meminfo, errno);
    free(meminfo);
    sensors_find(&run.sensors, options->roots.sysfs);

    int64_t mono = now_ns(), boot = clock_ns(CLOCK_BOOTTIME);
    run.error = spawn(&options->command, &spawned);
    run.child = spawned.pid;
    run.pipes[0] = spawned.out;
    run.pipes[1] = spawned.err;
    emit_start(&run, mono, boot);
    emit_sensors(&run);
    run.deadline_ns = options->deadline_ms.known ? mono + options->deadline_ms.value * MS : INT64_MAX;
    run.sample_ns = mono;
    if (run.error) {
        run.why = "spawn_failed";
        enter(&run, KILLING, now_ns());
    } else {
        family_start(&run.family, run.child);
    }
    for (step(&run); run.phase != DONE; step(&run)) await(&run);
    if (run.error) run.exit_code = run.signal_number = none(); /* that status was our own fork's */
    emit_end(&run);
    sink_finish(&run.sink, FINISH_MS);
    return 0;
}

/* ---- the command line ---- */

static int read_millis(const char *option, const char *text, int64_t least, int64_t *value) {
    int64_t most = (int64_t)1000 * 86400 * 30;
    if (parse_i64(text, value) && *value >= least && *value <= most) return 0;
    return misuse("%s takes whole milliseconds from %lld to %lld; got %s", option, (long long)least, (long long)most, text);
}

static int read_option(struct options *options, const char *option, const char *value, size_t *env_count) {
    int64_t number;
    if (!strcmp(option, "--dir")) {
        options->folder = value;
    } else if (!strcmp(option, "--sysfs")) {
        options->roots.sysfs = value;
    } else if (!strcmp(option, "--procfs")) {
        options->roots.procfs = value;
    } else if (!strcmp(option, "--interval-ms")) {
        return read_millis(option, value, 10, &options->interval_ms);
    } else if (!strcmp(option, "--deadline-ms")) {
        int wrong = read_millis(option, value, 1, &number);
        options->deadline_ms = some(number);
        return wrong;
    } else if (!strcmp(option, "--cwd")) {
        options->command.cwd = open(value, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (options->command.cwd < 0) return fail("cannot enter --cwd %s (%s)", value, errno_name(errno));
    } else if (!strcmp(option, "--env")) {
        if (!strchr(value, '=') || *value == '=') return misuse("--env takes NAME=VALUE; got %s", value);
        options->command.env = must_realloc(options->command.env, (*env_count + 2) * sizeof *options->command.env);
        options->command.env[(*env_count)++] = must_format("%s", value);
    } else {
        return misuse("run knows --dir, --interval-ms, --deadline-ms, --cwd, --env, --sysfs, --procfs; got %s", option);
    }
    return 0;
}

int verb_run(int count, char **words) {
    static struct options options = {.roots = {"/sys", "/proc"}, .interval_ms = 100, .command = {.cwd = -1}};
    size_t env_count = 0;
    int at = 0;
    for (; at < count && strcmp(words[at], "--"); at++) {
        const char *option = words[at];
        if (strncmp(option, "--", 2)) return misuse("run wants -- before the command; got %s", option);
        const char *value = option_value(count, words, &at);
        int wrong = value ? read_option(&options, option, value, &env_count) : 2;
        if (wrong) return wrong;
    }
    if (!options.folder) return misuse("run needs --dir DIR, a folder for the events");
    if (at + 1 >= count) return misuse("run needs a command after --");
    options.command.env = must_realloc(options.command.env, (env_count + 1) * sizeof *options.command.env);
    options.command.env[env_count] = NULL;
    options.command.argv = words + at + 1;
    return supervise(&options);
}
