#include "fault.h"

#include "line.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { GARBAGE_BYTES = 4096 };

/* Real ones where that is possible: a debuggerd sees a fault address, not a kill(). */
static void die_by(int number) {
    if (number == SIGSEGV) {
        volatile int *volatile nowhere = NULL;
        *nowhere = 1;
    } else if (number == SIGILL) {
#if defined(__aarch64__)
        __asm__ volatile(".inst 0x00000000");
#elif defined(__arm__)
        __asm__ volatile(".inst 0xe7f000f0");
#elif defined(__x86_64__)
        __asm__ volatile("ud2");
#endif
    } else if (number == SIGBUS) {
        int fd = (int)syscall(SYS_memfd_create, "empty", 0U); /* a page that the file does not have */
        volatile char *page = fd < 0 ? MAP_FAILED : mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (page != MAP_FAILED) *page = 1;
    } else if (number == SIGABRT) {
        abort();
    }
    signal(number, SIG_DFL);
    raise(number);
}

static void print_garbage(int events_fd) {
    char bytes[GARBAGE_BYTES];
    unsigned seed = 12345;
    for (size_t i = 0; i < sizeof bytes; i++) {
        seed = seed * 1103515245u + 12345u;
        bytes[i] = (char)(seed >> 16);
    }
    write_all(events_fd, bytes, sizeof bytes);
}

void commit_fault(const struct order *order, int events_fd) {
    switch (order->fault) {
    case HANG:
        for (;;) pause();
    case SIGNAL:
        die_by(order->signal_number);
        break;
    case EXIT:
        _exit((int)order->exit_code);
    case GARBAGE:
        print_garbage(events_fd);
        _exit((int)order->exit_code);
    default:
        break;
    }
}
