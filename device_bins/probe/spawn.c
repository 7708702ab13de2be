#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { EXEC_PATIENCE_MS = 10000 };

static const int handled[] = {SIGHUP, SIGINT, SIGTERM, SIGQUIT, SIGCHLD, SIGPIPE, SIGXFSZ};

/* In the child; returns only by failing. */
static void become(const struct command *command, pid_t probe, int out, int err) {
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0 || setsid() < 0) return;
    /* were the probe killed, nobody would watch this any more */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL)) return;
    if (getppid() != probe) _exit(0);
    if (dup2(null, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0) return;
    if (command->cwd >= 0 && fchdir(command->cwd)) return;
    if (command->pinned && sched_setaffinity(0, sizeof command->cpus, &command->cpus)) return;
    for (char **pair = command->env; *pair; pair++)
        if (putenv(*pair)) return;
    for (size_t i = 0; i < sizeof handled / sizeof *handled; i++) signal(handled[i], SIG_DFL);
    if (sigprocmask(SIG_SETMASK, &command->mask, NULL)) return;
    execvp(command->argv[0], command->argv);
}

/* The errno that the child sent, 0 when exec closed the pipe. */
static int await_exec(int report) {
    struct pollfd wait = {.fd = report, .events = POLLIN};
    int error = 0, ready;
    do ready = poll(&wait, 1, EXEC_PATIENCE_MS);
    while (ready < 0 && errno == EINTR);
    if (ready <= 0) return ETIMEDOUT;
    ssize_t got;
    do got = read(report, &error, sizeof error);
    while (got < 0 && errno == EINTR);
    return got == sizeof error ? error : 0;
}

int spawn(const struct command *command, struct spawned *spawned) {
    int out[2] = {-1, -1}, err[2] = {-1, -1}, report[2] = {-1, -1};
    *spawned = (struct spawned){0, -1, -1};
    if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC) || pipe2(report, O_CLOEXEC)) return errno;
    pid_t probe = getpid(), pid = fork();
    if (pid < 0) return errno;
    if (pid == 0) {
        become(command, probe, out[1], err[1]);
        int error = errno;
        ssize_t ignored = write(report[1], &error, sizeof error);
        _exit(ignored == sizeof error ? 126 : 125);
    }
    close(out[1]);
    close(err[1]);
    close(report[1]);
    *spawned = (struct spawned){pid, out[0], err[0]};
    int error = await_exec(report[0]);
    close(report[0]);
    /* only our end: the command itself sees ordinary blocking pipes */
    if (!error && (fcntl(out[0], F_SETFL, O_NONBLOCK) || fcntl(err[0], F_SETFL, O_NONBLOCK))) error = errno;
    return error;
}
