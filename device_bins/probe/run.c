/* probe run: supervise one command, from its start to the death of its last descendant. */
#include "detach.h"
#include "run.h"
#include "verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    CHUNK = 16384,
    GRACE_MS = 500,        /* between SIGTERM and SIGKILL */
    KILL_AGAIN_MS = 20,    /* orphans become ours one generation at a time */
    KILL_PATIENCE_MS = 2000,
    DRAIN_MS = 200,        /* for output of the dead, when a stranger holds the pipe open */
    ZONES_EVERY_MS = 1000, /* a phone has up to 90 zones, some slow to read, and heat is slow too */
    STAMP_EVERY_US = 300,  /* while sensors are read, look for output this often */
    FINISH_MS = 5000,      /* for a slow stdout to take the last events */
    LEASE_EVERY_MS = 5000, /* between two extensions, or a third of the lease's own length */
};

static volatile sig_atomic_t hung_up, told_to_stop;

static void on_signal(int number) {
    if (number == SIGHUP) hung_up = 1;
    else if (number != SIGCHLD) told_to_stop = 1; /* SIGCHLD only interrupts the wait */
}

int64_t now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }

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
    run->heard_ns = now_ns();
    emit_output(run, which + 1, chunk, (size_t)got);
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

static void look_for_trip(struct run *run) {
    for (size_t i = 0; i < run->sensors.zone_count && !run->tripped; i++) {
        struct maybe now = run->sensors.milli_c[i], limit = run->zone_limit[i];
        if (!now.known || !limit.known || now.value < limit.value) continue;
        run->tripped = &run->sensors.zones[i];
        run->tripped_at = now.value;
    }
}

/* What else is read once a second, with the zones. Of the dead nothing is known. */
static void look_slowly(const struct run *run, bool now, const struct usage *usage, struct slow *slow) {
    bool lives = now && usage->processes > 0;
    slow->gpu_bytes = lives ? gpu_measure(&run->gpu, &run->family) : none();
    slow->affinity.known = false;
    if (lives && run->options->command.pinned) affinity_read(&run->family, &slow->affinity);
}

static void sample(struct run *run, bool with_zones) {
    static struct slow slow;
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
    look_slowly(run, zones, &usage, &slow);
    emit_sample(run, &usage, available, &slow);
    if (zones) look_for_trip(run);
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

/* When silence has lasted too long. */
static int64_t silence_ns(const struct run *run) {
    const struct maybe *limit = &run->options->silence_ms;
    return limit->known ? run->heard_ns + limit->value * MS : INT64_MAX;
}

static void keep_lease(struct run *run, int64_t now) {
    int64_t third = run->lease.ttl_ms * MS / 3, most = (int64_t)LEASE_EVERY_MS * MS;
    run->lease_ns = now + (third < most ? third : most);
    if (!lease_extend(run->options->lease, &run->lease)) stop(run, "lease_lost");
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
    if (run->tripped) stop(run, "trip");
    if (now >= silence_ns(run) && takes_output(run)) stop(run, "silence");
    if (now >= run->lease_ns) keep_lease(run, now);
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
    if (run->phase == RUNNING && run->lease_ns < wake) wake = run->lease_ns;
    if (run->phase == RUNNING && silence_ns(run) < wake) wake = silence_ns(run);
    return run->phase <= ENDING && run->sample_ns < wake ? run->sample_ns : wake;
}

static void await(struct run *run) {
    sigset_t open;
    sigemptyset(&open);
    bool reads = takes_output(run);
    struct pollfd fds[3] = {
        {.fd = reads ? run->pipes[0] : -1, .events = POLLIN},
        {.fd = reads ? run->pipes[1] : -1, .events = POLLIN},
        {.fd = run->sink.out_broken || run->sink.mute ? -1 : STDOUT_FILENO, .events = sink_waiting(&run->sink) ? POLLOUT : 0},
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

/* Which zones end the run. A protection that cannot work is refused. */
static int set_trips(struct run *run) {
    const struct options *options = run->options;
    for (size_t i = 0; i < options->trip_count; i++) {
        const struct trip *trip = &options->trips[i];
        bool watched = false;
        for (size_t z = 0; z < run->sensors.zone_count; z++) {
            const char *type = run->sensors.zones[z].type;
            if (!type || (strcmp(type, trip->pattern) && regexec(&trip->regex, type, 0, NULL, 0))) continue;
            struct maybe *limit = &run->zone_limit[z];
            if (!limit->known || trip->limit < limit->value) *limit = some(trip->limit);
            watched |= run->sensors.milli_c[z].known;
        }
        if (!watched) return fail("no readable thermal zone is called %s: see the zones of probe facts", trip->pattern);
    }
    return 0;
}

static int supervise(struct options *options) {
    static struct run run;
    struct spawned spawned;
    run.options = options;
    run.lease_ns = INT64_MAX;
    if (options->detach) detach(options->command.cwd);
    sensors_find(&run.sensors, options->roots.sysfs);
    gpu_find(&run.gpu, &options->roots, &run.sensors.denied);
    int refused = set_trips(&run);
    if (!refused && options->lease) refused = lease_find(options->lease, options->lease_id, &run.lease);
    if (!refused) refused = sink_open(&run.sink, options->folder);
    if (refused) return refused;
    catch_signals(&options->command.mask);
    if (options->detach) signal(SIGHUP, SIG_IGN);
    run.adopts = !prctl(PR_SET_CHILD_SUBREAPER, 1); /* Linux 3.4; qemu-user has it not */
    char *meminfo = must_format("%s/meminfo", options->roots.procfs);
    run.meminfo = open(meminfo, O_RDONLY | O_CLOEXEC);
    if (run.meminfo < 0) note_denied(&run.sensors.denied, meminfo, errno);
    free(meminfo);

    int64_t mono = now_ns(), boot = clock_ns(CLOCK_BOOTTIME);
    run.error = spawn(&options->command, &spawned);
    run.child = spawned.pid;
    run.pipes[0] = spawned.out;
    run.pipes[1] = spawned.err;
    emit_start(&run, mono, boot);
    if (options->detach) {
        sink_finish(&run.sink, FINISH_MS);
        run.sink.mute = true;
        run.sink.out_broken = false; /* that nobody reads any more is what a run let go of is for */
        detach_done();
    }
    emit_sensors(&run);
    run.deadline_ns = options->deadline_ms.known ? mono + options->deadline_ms.value * MS : INT64_MAX;
    run.sample_ns = run.heard_ns = mono;
    if (options->lease) run.lease_ns = mono;
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
    sink_close(&run.sink);
    return 0;
}

int verb_run(int count, char **words) {
    static struct options options;
    int wrong = read_run_options(&options, count, words);
    if (wrong) return wrong;
    /* heat is looked for once a second at least */
    if (options.trip_count && options.interval_ms > ZONES_EVERY_MS) options.interval_ms = ZONES_EVERY_MS;
    return supervise(&options);
}
