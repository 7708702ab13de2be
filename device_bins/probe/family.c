#include "family.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_STEP = 400, SCAN_EVERY_MS = 2000, STATUS_CAP = 4096 };

struct process {
    char state;
    pid_t parent, session;
    int64_t user_ms, system_ms;
};

/* The fields after the last ')': the name before it may hold anything. */
static bool parse_stat(const char *text, struct process *process) {
    const char *at = strrchr(text, ')');
    int parent, session;
    long long user, system, waited_user, waited_system;
    if (!at || sscanf(at + 1, " %c %d %*d %d %*d %*d %*u %*u %*u %*u %*u %lld %lld %lld %lld", &process->state, &parent,
                      &session, &user, &system, &waited_user, &waited_system) != 7)
        return false;
    long hertz = sysconf(_SC_CLK_TCK);
    process->parent = parent;
    process->session = session;
    process->user_ms = (user + waited_user) * 1000 / hertz;
    process->system_ms = (system + waited_system) * 1000 / hertz;
    return true;
}

static int open_of(pid_t pid, const char *file) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static bool read_process(pid_t pid, struct process *process) {
    char text[1024];
    int fd = open_of(pid, "stat");
    if (fd < 0) return false;
    bool good = read_again(fd, text, sizeof text) > 0 && parse_stat(text, process);
    close(fd);
    return good;
}

/* A root of 0 is no session: kernel threads have that one. */
static bool is_ours(const struct family *family, const struct process *process) {
    return process->parent == getpid() || (family->root > 0 && process->session == family->root);
}

static bool is_member(const struct family *family, pid_t pid) {
    for (size_t i = 0; i < family->count; i++)
        if (family->members[i].pid == pid) return true;
    return false;
}

/* /proc/N opens for a thread N too; only a process is its own group leader. */
static bool is_process(int status) {
    char text[STATUS_CAP];
    if (read_again(status, text, sizeof text) <= 0) return false;
    struct maybe group = find_field(text, "Tgid", 1), pid = find_field(text, "Pid", 1);
    return group.known && pid.known && group.value == pid.value;
}

static void add_member(struct family *family, pid_t pid) {
    if (family->count == MAX_MEMBERS) return;
    struct member member = {.pid = pid, .stat = open_of(pid, "stat"), .status = open_of(pid, "status")};
    if (member.stat >= 0 && member.status >= 0 && is_process(member.status)) {
        family->members[family->count++] = member;
        return;
    }
    if (member.stat >= 0) close(member.stat);
    if (member.status >= 0) close(member.status);
}

static void consider(struct family *family, pid_t pid) {
    struct process process;
    if (is_member(family, pid) || !read_process(pid, &process)) return;
    if (is_ours(family, &process) || is_member(family, process.parent)) add_member(family, pid);
}

static void scan(struct family *family) {
    DIR *dir = opendir("/proc");
    if (!dir) return;
    for (struct dirent *entry; (entry = readdir(dir));) {
        int64_t pid;
        if (*entry->d_name >= '1' && *entry->d_name <= '9' && parse_i64(entry->d_name, &pid))
            consider(family, (pid_t)pid);
    }
    closedir(dir);
}

static struct maybe newest_pid(const struct family *family) {
    char text[128];
    if (family->loadavg < 0 || read_again(family->loadavg, text, sizeof text) <= 0) return none();
    const char *last = strrchr(text, ' ');
    return last ? parse_maybe(last) : none();
}

static void find_members(struct family *family, int64_t now_ns) {
    struct maybe newest = newest_pid(family);
    if (!newest.known) {
        if (now_ns < family->next_scan_ns) return;
        family->next_scan_ns = now_ns + (int64_t)SCAN_EVERY_MS * 1000000;
        scan(family);
        return;
    }
    if (newest.value < family->newest || newest.value > family->newest + MAX_STEP) scan(family);
    else
        for (int64_t pid = family->newest + 1; pid <= newest.value; pid++) consider(family, (pid_t)pid);
    family->newest = newest.value;
}

void family_start(struct family *family, pid_t root) {
    family->root = root;
    family->newest = root;
    family->loadavg = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
    add_member(family, root);
}

static void add_known(struct maybe *sum, struct maybe value) {
    if (value.known) *sum = some((sum->known ? sum->value : 0) + value.value);
}

bool find_allowed(const char *status, char list[MAX_CPU_LIST]) {
    static const char key[] = "\nCpus_allowed_list:\t";
    const char *at = strstr(status, key);
    if (!at) return false;
    at += sizeof key - 1;
    size_t length = strcspn(at, "\n");
    if (!length || length >= MAX_CPU_LIST) return false;
    memcpy(list, at, length);
    list[length] = '\0';
    return true;
}

/* Where the root is and may be. Android moves processes between cpusets, and with that their affinity is gone. */
static void find_place(const char *stat, const char *status, struct usage *usage) {
    const char *at = strrchr(stat, ')');
    for (int field = 2; at && field < 39; field++) at = strchr(at + 1, ' '); /* 39 is `processor` */
    long long cpu;
    if (at && sscanf(at, " %lld", &cpu) == 1) usage->cpu = some(cpu);
    (void)find_allowed(status, usage->allowed);
}

/* Returns false when the process is gone. */
static bool measure(const struct member *member, bool root, struct usage *usage) {
    char text[STATUS_CAP], stat[1024];
    struct process process;
    if (read_again(member->stat, stat, sizeof stat) <= 0 || !parse_stat(stat, &process)) return false;
    usage->cpu_user_ms += process.user_ms;
    usage->cpu_system_ms += process.system_ms;
    if (process.state == 'Z' || read_again(member->status, text, sizeof text) <= 0) return true;
    usage->processes++;
    if (root) find_place(stat, text, usage);
    add_known(&usage->rss_bytes, find_field(text, "VmRSS", 1024));
    add_known(&usage->anon_bytes, find_field(text, "RssAnon", 1024));
    add_known(&usage->swap_bytes, find_field(text, "VmSwap", 1024));
    add_known(&usage->hwm_bytes, find_field(text, "VmHWM", 1024));
    add_known(&usage->threads, find_field(text, "Threads", 1));
    return true;
}

void family_measure(struct family *family, struct usage *usage, int64_t now_ns) {
    *usage = (struct usage){0};
    find_members(family, now_ns);
    for (size_t i = 0; i < family->count;) {
        if (measure(&family->members[i], family->members[i].pid == family->root, usage)) {
            i++;
            continue;
        }
        close(family->members[i].stat);
        close(family->members[i].status);
        family->members[i] = family->members[--family->count];
    }
}

size_t family_signal(const struct family *family, int signal) {
    size_t count = 0;
    DIR *dir = opendir("/proc");
    if (!dir) return 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        int64_t pid;
        struct process process;
        if (*entry->d_name < '1' || *entry->d_name > '9' || !parse_i64(entry->d_name, &pid)) continue;
        if (!read_process((pid_t)pid, &process) || process.state == 'Z') continue;
        if (!is_ours(family, &process)) continue;
        (void)kill((pid_t)pid, signal);
        count++;
    }
    closedir(dir);
    return count;
}
