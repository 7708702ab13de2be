/* probe bandwidth: how fast memory can be read, by number of threads. Decoding reads all weights for each token, so
 * this is the roof over its speed.
 *
 * A roof that is too low would call honest phones liars. So the time is cut into slices, all threads read in another way
 * in each, and the best slice is told: what stole the cores or the memory in the others lowers no roof. The median is
 * told beside it. The memory read is larger than the caches.
 */
#include "caches.h"
#include "cpus.h"
#include "json.h"
#include "reading.h"
#include "util.h"
#include "verbs.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_THREADS = 64,
    MAX_SLICES = 256,
    PIECE = 1 << 18,         /* bytes between two looks at the clock */
    SLICE_MS = 50,           /* a piece more or less in it is a hundredth at 0.5 GB/s */
    FEWEST_SLICES = READINGS, /* each way gets one */
    CACHES = 4,              /* so many times the caches' size is read, */
    SHARE = 4,               /* but at most this part of the memory that is available */
    MB = 1 << 20,
};

struct asked {
    struct roots roots;
    int threads[MAX_THREADS];
    size_t thread_count;
    double seconds;
    int64_t mb;
    int cpus[MAX_CPUS]; /* cores to stay on, one for each thread */
    size_t cpu_count;   /* 0: wherever the phone likes */
};

/* What all threads that run at the same time read together, and what all together may take at most. */
struct size {
    int64_t bytes, most;
};

struct reader {
    pthread_t thread;
    pthread_barrier_t *barrier;
    int64_t *start; /* of all threads: slices of different times must not be added up */
    int64_t slice_ns;
    size_t slices, bytes; /* bytes: of its memory */
    int cpu;              /* -1: any */
    int error;
    int64_t read[MAX_SLICES];
    uint64_t sum; /* so that the reading is not thrown out by the compiler */
};

static int stay_on(int cpu) {
    cpu_set_t only;
    if (cpu < 0) return 0;
    CPU_ZERO(&only);
    CPU_SET((size_t)cpu, &only);
    return sched_setaffinity(0, sizeof only, &only) ? errno : 0;
}

static char *take_memory(struct reader *reader) {
    reader->error = stay_on(reader->cpu);
    if (reader->error) return NULL;
    void *block = mmap(NULL, reader->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) {
        reader->error = errno;
        return NULL;
    }
#ifdef MADV_HUGEPAGE
    (void)madvise(block, reader->bytes, MADV_HUGEPAGE); /* looking up small pages costs some of the speed */
#endif
    uint64_t *words = block;
    for (size_t i = 0; i < reader->bytes / sizeof *words; i++) words[i] = i * 0x9e3779b97f4a7c15u;
    return block;
}

static void *read_on(void *context) {
    struct reader *reader = context;
    const char *block = take_memory(reader);
    if (pthread_barrier_wait(reader->barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
        *reader->start = clock_ns(CLOCK_MONOTONIC);
    (void)pthread_barrier_wait(reader->barrier);
    int64_t start = *reader->start;
    size_t at = 0, slice = 0;
    while (block && slice < reader->slices) {
        size_t count = reader->bytes - at < PIECE ? reader->bytes - at : PIECE;
        reader->sum ^= readings[slice % READINGS].read(block + at, count);
        at = at + count == reader->bytes ? 0 : at + count;
        /* it counts for the slice in which it ends */
        slice = (size_t)((clock_ns(CLOCK_MONOTONIC) - start) / reader->slice_ns);
        if (slice < reader->slices) reader->read[slice] += (int64_t)count;
    }
    if (block) munmap((void *)(uintptr_t)block, reader->bytes);
    return NULL;
}

static int ascending(const void *left, const void *right) {
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* More threads than cores: those that run must not be left with blocks that the caches hold. */
static size_t block_bytes(struct size size, int threads) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int64_t block = size.bytes / (cores > 0 && threads > cores ? cores : threads);
    if (block > size.most / threads) block = size.most / threads;
    return (size_t)block / READ_UNIT * READ_UNIT;
}

/* Bytes that all threads together read in each slice. */
static int measure(const struct asked *asked, int threads, struct size size, int64_t *read, size_t slices, int64_t slice_ns) {
    static struct reader readers[MAX_THREADS];
    static volatile uint64_t sum;
    pthread_barrier_t barrier;
    int64_t start = 0;
    if (pthread_barrier_init(&barrier, NULL, (unsigned)threads)) return fail("%d threads could not be had", threads);
    for (int i = 0; i < threads; i++) {
        readers[i] = (struct reader){.barrier = &barrier, .start = &start, .slice_ns = slice_ns, .slices = slices};
        readers[i].bytes = block_bytes(size, threads);
        readers[i].cpu = asked->cpu_count ? asked->cpus[i] : -1;
        /* those who wait at the barrier cannot be called back, and the process ends anyway */
        if (pthread_create(&readers[i].thread, NULL, read_on, &readers[i])) return fail("%d threads could not be had", threads);
    }
    for (int i = 0; i < threads; i++) pthread_join(readers[i].thread, NULL);
    pthread_barrier_destroy(&barrier);
    memset(read, 0, slices * sizeof *read);
    for (int i = 0; i < threads; i++) {
        int error = readers[i].error;
        if (error && readers[i].cpu >= 0 && error != ENOMEM)
            return fail("a thread could not be kept on core %d (%s)", readers[i].cpu, errno_name(error));
        if (error) return fail("%lld MB could not be had (%s)", (long long)(size.bytes / MB), errno_name(error));
        sum ^= readers[i].sum;
        for (size_t slice = 0; slice < slices; slice++) read[slice] += readers[i].read[slice];
    }
    return 0;
}

static size_t read_threads(const char *text, int *threads) {
    size_t count = 0;
    for (char *end; count < MAX_THREADS; text = end + 1) {
        long number = strtol(text, &end, 10);
        if (end == text || number < 1 || number > MAX_THREADS) return 0;
        threads[count++] = (int)number;
        if (!*end) return count;
        if (*end != ',') return 0;
    }
    return 0;
}

static int read_option(struct asked *asked, const char *option, const char *value) {
    char *end = NULL;
    if (!strcmp(option, "--threads")) {
        asked->thread_count = read_threads(value, asked->threads);
        if (!asked->thread_count) return misuse("--threads takes numbers from 1 to %d, as 1,2,4; got %s", MAX_THREADS, value);
    } else if (!strcmp(option, "--seconds")) {
        asked->seconds = strtod(value, &end);
        if (*end || !(asked->seconds >= 0.01 && asked->seconds <= 60))
            return misuse("--seconds takes 0.01 to 60; got %s", value);
    } else if (!strcmp(option, "--mb")) {
        if (!parse_i64(value, &asked->mb) || asked->mb < 1 || asked->mb > 16384)
            return misuse("--mb takes 1 to 16384; got %s", value);
    } else if (!strcmp(option, "--cpus")) {
        asked->cpu_count = strspn(value, "0123456789,-") == strlen(value) ? parse_cpu_list(value, asked->cpus) : 0;
        if (!asked->cpu_count) return misuse("--cpus takes a list of cores such as 0,4-7; got %s", value);
    } else if (!strcmp(option, "--sysfs")) {
        asked->roots.sysfs = value;
    } else if (!strcmp(option, "--procfs")) {
        asked->roots.procfs = value;
    } else {
        return misuse("bandwidth knows --threads, --seconds, --mb, --cpus, --sysfs, --procfs; got %s", option);
    }
    return 0;
}

static int read_asked(struct asked *asked, int count, char **words) {
    for (int at = 0; at < count; at++) {
        const char *option = words[at], *value = option_value(count, words, &at);
        int wrong = value ? read_option(asked, option, value) : 2;
        if (wrong) return wrong;
    }
    for (size_t i = 0; asked->cpu_count && i < asked->thread_count; i++)
        if ((size_t)asked->threads[i] > asked->cpu_count)
            return misuse("--cpus names %zu cores, too few for %d threads", asked->cpu_count, asked->threads[i]);
    return 0;
}

static struct maybe llc_of(const struct roots *roots) {
    int cpus[MAX_CPUS];
    size_t count = list_cpus(roots->sysfs, cpus, NULL);
    return last_level_bytes(roots->sysfs, cpus, count, NULL);
}

/* At least what was asked for and beyond the caches, and never so much that apps are killed for it. */
static struct size choose_size(const struct asked *asked, struct maybe llc) {
    char text[512]; /* MemAvailable is the third line */
    char *path = must_format("%s/meminfo", asked->roots.procfs);
    struct maybe available = read_file(path, text, sizeof text) > 0 ? find_field(text, "MemAvailable", 1024) : none();
    free(path);
    struct size size = {asked->mb * MB, available.known ? available.value / SHARE : INT64_MAX};
    if (llc.known && size.bytes < CACHES * llc.value) size.bytes = CACHES * llc.value;
    if (size.most < MB) size.most = MB;
    if (size.bytes > size.most) size.bytes = size.most;
    return size;
}

static void put_result(struct json *json, int threads, int64_t *read, size_t slices, int64_t slice_ns) {
    int64_t bytes = 0;
    size_t best = 0;
    for (size_t i = 0; i < slices; i++) {
        bytes += read[i];
        if (read[i] > read[best]) best = i;
    }
    double most = (double)read[best];
    qsort(read, slices, sizeof *read, ascending);
    json_item(json);
    json_open(json, '{');
    json_key(json, "threads");
    json_int(json, threads);
    json_key(json, "bytes");
    json_int(json, bytes);
    json_key(json, "gb_per_s");
    json_milli(json, (int64_t)(most * 1e3 / (double)slice_ns));
    json_key(json, "median_gb_per_s");
    json_milli(json, (int64_t)((double)read[slices / 2] * 1e3 / (double)slice_ns));
    json_key(json, "way");
    json_text(json, readings[best % READINGS].name);
    json_close(json, '}');
}

int verb_bandwidth(int count, char **words) {
    static struct asked asked = {
        .roots = {"/sys", "/proc"}, .threads = {1, 2, 4}, .thread_count = 3, .seconds = 1, .mb = 256};
    static int64_t read[MAX_SLICES];
    struct json json = {0};
    int wrong = read_asked(&asked, count, words);
    if (wrong) return wrong;
    struct maybe llc = llc_of(&asked.roots);
    struct size size = choose_size(&asked, llc);
    int64_t duration_ns = (int64_t)(asked.seconds * 1e9);
    int64_t slices = duration_ns / (SLICE_MS * (int64_t)1000000);
    slices = slices < FEWEST_SLICES ? FEWEST_SLICES : slices > MAX_SLICES ? MAX_SLICES : slices;
    json_open(&json, '{');
    json_key(&json, "mb");
    json_int(&json, size.bytes / MB);
    json_key(&json, "llc_bytes");
    json_maybe(&json, llc);
    json_key(&json, "results");
    json_open(&json, '[');
    for (size_t i = 0; i < asked.thread_count; i++) {
        int64_t slice_ns = duration_ns / slices;
        int failed = measure(&asked, asked.threads[i], size, read, (size_t)slices, slice_ns);
        if (failed) return failed;
        put_result(&json, asked.threads[i], read, (size_t)slices, slice_ns);
    }
    json_close(&json, ']');
    json_close(&json, '}');
    json_newline(&json);
    return json_print(&json) ? 0 : fail("stdout is closed");
}
