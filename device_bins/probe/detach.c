#include "detach.h"

#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE_MS = 30000, HIGHEST_FD = 1024 };

/* In the first process: print until the other has said all (a zero byte) or is gone. */
static void relay(int from, pid_t child) {
    char text[4096];
    for (;;) {
        struct pollfd wait = {.fd = from, .events = POLLIN};
        int ready = poll(&wait, 1, PATIENCE_MS);
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) exit(fail("the background process %d said nothing for %d ms", (int)child, PATIENCE_MS));
        ssize_t got = read(from, text, sizeof text);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        bool done = text[got - 1] == '\0';
        for (ssize_t at = 0; at < got - done;) {
            ssize_t wrote = write(STDOUT_FILENO, text + at, (size_t)(got - done - at));
            if (wrote < 0 && errno == EINTR) continue;
            if (wrote <= 0) break;
            at += wrote;
        }
        if (done) exit(0);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

void detach(int keep) {
    int tube[2];
    if (pipe2(tube, O_CLOEXEC)) exit(fail("cannot make a pipe (%s)", errno_name(errno)));
    pid_t child = fork();
    if (child < 0) exit(fail("cannot fork (%s)", errno_name(errno)));
    if (child > 0) {
        close(tube[1]);
        relay(tube[0], child);
    }
    (void)setsid(); /* a fresh child leads no group, so this works */
    signal(SIGHUP, SIG_IGN);
    int null = open("/dev/null", O_RDWR);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(tube[1], STDOUT_FILENO) < 0)
        exit(fail("cannot let go of stdin and stdout (%s)", errno_name(errno)));
    /* whatever was inherited would keep the shell that started us waiting */
    for (int fd = STDERR_FILENO + 1; fd < HIGHEST_FD; fd++)
        if (fd != keep) close(fd);
}

void detach_done(void) {
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    ssize_t ignored = write(STDOUT_FILENO, "", 1);
    (void)ignored; /* whoever started us is gone already: all the same */
    if (null < 0) return;
    (void)dup2(null, STDOUT_FILENO);
    (void)dup2(null, STDERR_FILENO);
    close(null);
}
