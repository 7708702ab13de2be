/* The command line of `probe run`. */
#include "run.h"
#include "verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static int read_millis(const char *option, const char *text, int64_t least, int64_t *value) {
    int64_t most = (int64_t)1000 * 86400 * 30;
    if (parse_i64(text, value) && *value >= least && *value <= most) return 0;
    return misuse("%s takes whole milliseconds from %lld to %lld; got %s", option, (long long)least, (long long)most, text);
}

static int read_cpus(struct command *command, const char *text) {
    int numbers[MAX_CPUS];
    size_t count = strspn(text, "0123456789,-") == strlen(text) ? parse_cpu_list(text, numbers) : 0;
    if (!count) return misuse("--cpus takes a list of cores such as 0,4-7; got %s", text);
    command->pinned = true;
    CPU_ZERO(&command->cpus);
    for (size_t i = 0; i < count; i++) CPU_SET(numbers[i], &command->cpus);
    return 0;
}

/* TYPE=VALUE, where TYPE may be an extended regular expression for the whole type. */
static int read_trip(struct options *options, const char *text) {
    const char *equals = strrchr(text, '=');
    if (options->trip_count == MAX_TRIPS) return misuse("--trip-milli-c can be given %d times", MAX_TRIPS);
    struct trip *trip = &options->trips[options->trip_count];
    if (!equals || equals == text || !parse_i64(equals + 1, &trip->limit))
        return misuse("--trip-milli-c takes ZONE_TYPE=VALUE, a whole number in the zone's unit; got %s", text);
    trip->pattern = must_format("%.*s", (int)(equals - text), text);
    char *whole = must_format("^(%s)$", trip->pattern);
    int wrong = regcomp(&trip->regex, whole, REG_EXTENDED | REG_NOSUB);
    free(whole);
    if (wrong) return misuse("--trip-milli-c %s is no regular expression for a zone's type", trip->pattern);
    options->trip_count++;
    return 0;
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
    } else if (!strcmp(option, "--silence-ms")) {
        int wrong = read_millis(option, value, 1, &number);
        options->silence_ms = some(number);
        return wrong;
    } else if (!strcmp(option, "--trip-milli-c")) {
        return read_trip(options, value);
    } else if (!strcmp(option, "--cpus")) {
        return read_cpus(&options->command, value);
    } else if (!strcmp(option, "--lease")) {
        options->lease = value;
    } else if (!strcmp(option, "--lease-id")) {
        options->lease_id = value;
    } else if (!strcmp(option, "--cwd")) {
        options->command.cwd = open(value, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (options->command.cwd < 0) return fail("cannot enter --cwd %s (%s)", value, errno_name(errno));
    } else if (!strcmp(option, "--env")) {
        if (!strchr(value, '=') || *value == '=') return misuse("--env takes NAME=VALUE; got %s", value);
        options->command.env = must_realloc(options->command.env, (*env_count + 2) * sizeof *options->command.env);
        options->command.env[(*env_count)++] = must_format("%s", value);
    } else {
        return misuse("run knows --dir, --interval-ms, --deadline-ms, --silence-ms, --trip-milli-c, --cpus, --lease, "
                      "--lease-id, --detach, --cwd, --env, --sysfs, --procfs; got %s",
                      option);
    }
    return 0;
}

int read_run_options(struct options *options, int count, char **words) {
    size_t env_count = 0;
    int at = 0;
    *options = (struct options){.roots = {"/sys", "/proc"}, .interval_ms = 100, .command = {.cwd = -1}};
    for (; at < count && strcmp(words[at], "--"); at++) {
        const char *option = words[at];
        if (strncmp(option, "--", 2)) return misuse("run wants -- before the command; got %s", option);
        if (!strcmp(option, "--detach")) {
            options->detach = true;
            continue;
        }
        const char *value = option_value(count, words, &at);
        int wrong = value ? read_option(options, option, value, &env_count) : 2;
        if (wrong) return wrong;
    }
    if (!options->folder) return misuse("run needs --dir DIR, a folder for the events");
    if (at + 1 >= count) return misuse("run needs a command after --");
    if (options->lease_id && !options->lease) return misuse("--lease-id needs --lease FILE");
    options->command.env = must_realloc(options->command.env, (env_count + 1) * sizeof *options->command.env);
    options->command.env[env_count] = NULL;
    options->command.argv = words + at + 1;
    return 0;
}
