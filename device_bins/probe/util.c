#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void complain(const char *format, va_list arguments) {
    fputs("probe: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
}

int fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    complain(format, arguments);
    va_end(arguments);
    return 1;
}

int misuse(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    complain(format, arguments);
    va_end(arguments);
    return 2;
}

void *must_realloc(void *old, size_t size) {
    void *fresh = realloc(old, size);
    if (!fresh) exit(fail("out of memory (%zu bytes were wanted)", size));
    return fresh;
}

char *must_format(const char *format, ...) {
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0) exit(fail("out of memory"));
    return text;
}

int64_t clock_ns(int clock) {
    struct timespec now;
    if (clock_gettime(clock, &now)) return 0;
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

const char *errno_name(int error) {
    static const struct {
        int number;
        const char *name;
    } names[] = {
        {EPERM, "EPERM"},     {ENOENT, "ENOENT"},   {ESRCH, "ESRCH"},     {EINTR, "EINTR"},
        {EIO, "EIO"},         {ENXIO, "ENXIO"},     {E2BIG, "E2BIG"},     {ENOEXEC, "ENOEXEC"},
        {EBADF, "EBADF"},     {ECHILD, "ECHILD"},   {EAGAIN, "EAGAIN"},   {ENOMEM, "ENOMEM"},
        {EACCES, "EACCES"},   {EFAULT, "EFAULT"},   {EBUSY, "EBUSY"},     {EEXIST, "EEXIST"},
        {ENODEV, "ENODEV"},   {ENOTDIR, "ENOTDIR"}, {EISDIR, "EISDIR"},   {EINVAL, "EINVAL"},
        {ENFILE, "ENFILE"},   {EMFILE, "EMFILE"},   {ETXTBSY, "ETXTBSY"}, {EFBIG, "EFBIG"},
        {ENOSPC, "ENOSPC"},   {EROFS, "EROFS"},     {EPIPE, "EPIPE"},     {ENAMETOOLONG, "ENAMETOOLONG"},
        {ENOSYS, "ENOSYS"},   {ELOOP, "ELOOP"},     {ENODATA, "ENODATA"}, {ETIMEDOUT, "ETIMEDOUT"},
        {EDQUOT, "EDQUOT"},   {ELIBBAD, "ELIBBAD"}, {ENOTSUP, "ENOTSUP"}, {EOVERFLOW, "EOVERFLOW"},
        {ENOLINK, "ENOLINK"}, {ESTALE, "ESTALE"},
    };
    static char other[16];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].number == error) return names[i].name;
    snprintf(other, sizeof other, "E%d", error);
    return other;
}

int make_folders(const char *folder) {
    char *path = must_format("%s", folder);
    for (char *slash = path + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = '\0';
        (void)mkdir(path, 0777); /* the last mkdir or the open below tells */
    }
    int error = mkdir(path, 0777) && errno != EEXIST ? errno : 0;
    free(path);
    return error;
}

static ssize_t read_upto(int fd, char *buffer, size_t cap) {
    size_t length = 0;
    while (length + 1 < cap) {
        ssize_t got = pread(fd, buffer + length, cap - 1 - length, (off_t)length);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -errno;
        if (got == 0) break;
        length += (size_t)got;
    }
    buffer[length] = '\0';
    return (ssize_t)length;
}

ssize_t read_file(const char *path, char *buffer, size_t cap) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return -errno;
    ssize_t length = read_upto(fd, buffer, cap);
    close(fd);
    return length;
}

/* One system call: what we read again and again fits the buffer. */
ssize_t read_again(int fd, char *buffer, size_t cap) {
    ssize_t got;
    do got = pread(fd, buffer, cap - 1, 0);
    while (got < 0 && errno == EINTR);
    if (got < 0) return -errno;
    buffer[got] = '\0';
    return got;
}

bool parse_i64(const char *text, int64_t *value) {
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (end == text || errno) return false;
    end += strspn(end, " \t\r\n");
    if (*end) return false;
    *value = number;
    return true;
}

struct maybe parse_maybe(const char *text) {
    int64_t value;
    return parse_i64(text, &value) ? some(value) : none();
}

struct maybe find_field(const char *text, const char *name, int64_t scale) {
    size_t length = strlen(name);
    for (const char *line = text; line && *line; line = strchr(line, '\n'), line += line != NULL) {
        if (strncmp(line, name, length) || line[length] != ':') continue;
        char *end;
        const char *number = line + length + 1 + strspn(line + length + 1, " \t");
        if (*number < '0' || *number > '9') return none();
        errno = 0;
        long long value = strtoll(number, &end, 10);
        if (errno || value > INT64_MAX / scale) return none();
        return some(value * scale);
    }
    return none();
}

void note_denied(struct denied *denied, const char *path, int error) {
    if (!denied || error == ENOENT) return; /* what is not there was not refused */
    denied->items = must_realloc(denied->items, (denied->count + 1) * sizeof *denied->items);
    denied->items[denied->count].path = must_format("%s", path);
    denied->items[denied->count].error = error;
    denied->count++;
}

struct maybe read_number(const char *path, struct denied *denied) {
    char buffer[64];
    ssize_t length = read_file(path, buffer, sizeof buffer);
    if (length < 0) {
        note_denied(denied, path, (int)-length);
        return none();
    }
    return parse_maybe(buffer);
}

bool read_boot_id(const char *procfs, char *buffer, size_t cap, struct denied *denied) {
    char *path = must_format("%s/sys/kernel/random/boot_id", procfs);
    ssize_t length = read_file(path, buffer, cap);
    if (length < 0) note_denied(denied, path, (int)-length);
    else buffer[strcspn(buffer, "\n")] = '\0';
    free(path);
    return length > 0;
}
