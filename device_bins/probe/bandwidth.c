/* probe bandwidth: how fast memory can be read, by number of threads. Decoding reads all weights for each token, so
 * this is the roof over its speed.
 */
#include "json.h"
#include "util.h"
#include "verbs.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { MAX_THREADS = 64, PIECE_WORDS = 1 << 16 /* half a MiB between two looks at the clock */ };

struct reader {
    pthread_t thread;
    pthread_barrier_t *barrier;
    int64_t duration_ns, elapsed_ns, bytes;
    size_t words;
    bool failed;
    uint64_t sum; /* so that the reading is not thrown out by the compiler */
};

static uint64_t read_piece(const uint64_t *from, size_t count) {
    uint64_t sum[8] = {0};
    for (size_t i = 0; i + 8 <= count; i += 8)
        for (size_t lane = 0; lane < 8; lane++) sum[lane] ^= from[i + lane];
    return sum[0] ^ sum[1] ^ sum[2] ^ sum[3] ^ sum[4] ^ sum[5] ^ sum[6] ^ sum[7];
}

static void *read_on(void *context) {
    struct reader *reader = context;
    size_t size = reader->words * sizeof(uint64_t);
    uint64_t *block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    reader->failed = block == MAP_FAILED;
    for (size_t i = 0; !reader->failed && i < reader->words; i++) block[i] = i * 0x9e3779b97f4a7c15u;
    (void)pthread_barrier_wait(reader->barrier);
    int64_t start = clock_ns(CLOCK_MONOTONIC);
    size_t at = 0;
    while (!reader->failed && reader->elapsed_ns < reader->duration_ns) {
        size_t count = reader->words - at < PIECE_WORDS ? reader->words - at : PIECE_WORDS;
        reader->sum ^= read_piece(block + at, count);
        reader->bytes += (int64_t)(count * sizeof(uint64_t));
        at = at + count == reader->words ? 0 : at + count;
        reader->elapsed_ns = clock_ns(CLOCK_MONOTONIC) - start;
    }
    if (!reader->failed) munmap(block, size);
    return NULL;
}

/* Millions of bytes a second of all threads together; -1 when memory or threads could not be had. */
static int64_t measure(int threads, int64_t total_bytes, int64_t duration_ns, int64_t *bytes) {
    static struct reader readers[MAX_THREADS];
    static volatile uint64_t sum;
    pthread_barrier_t barrier;
    int64_t speed = 0;
    int started = 0;
    if (pthread_barrier_init(&barrier, NULL, (unsigned)threads)) return -1;
    for (; started < threads; started++) {
        readers[started] = (struct reader){.barrier = &barrier, .duration_ns = duration_ns};
        readers[started].words = (size_t)(total_bytes / threads) / sizeof(uint64_t) / 8 * 8;
        /* those who wait at the barrier cannot be called back, and the process ends anyway */
        if (pthread_create(&readers[started].thread, NULL, read_on, &readers[started])) return -1;
    }
    for (int i = 0; i < threads; i++) pthread_join(readers[i].thread, NULL);
    pthread_barrier_destroy(&barrier);
    *bytes = 0;
    for (int i = 0; i < threads; i++) {
        if (readers[i].failed || !readers[i].elapsed_ns) return -1;
        sum ^= readers[i].sum;
        *bytes += readers[i].bytes;
        speed += (int64_t)((double)readers[i].bytes * 1e3 / (double)readers[i].elapsed_ns);
    }
    return speed;
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

int verb_bandwidth(int count, char **words) {
    int threads[MAX_THREADS] = {1, 2, 4};
    size_t wanted = 3;
    double seconds = 1;
    int64_t mb = 256;
    struct json json = {0};
    for (int at = 0; at < count; at++) {
        const char *option = words[at], *value = option_value(count, words, &at);
        char *end = NULL;
        if (!value) return 2;
        if (!strcmp(option, "--threads")) {
            wanted = read_threads(value, threads);
            if (!wanted) return misuse("--threads takes numbers from 1 to %d, as 1,2,4; got %s", MAX_THREADS, value);
        } else if (!strcmp(option, "--seconds")) {
            seconds = strtod(value, &end);
            if (*end || !(seconds >= 0.01 && seconds <= 60)) return misuse("--seconds takes 0.01 to 60; got %s", value);
        } else if (!strcmp(option, "--mb")) {
            if (!parse_i64(value, &mb) || mb < 1 || mb > 16384) return misuse("--mb takes 1 to 16384; got %s", value);
        } else {
            return misuse("bandwidth knows --threads, --seconds, --mb; got %s", option);
        }
    }
    json_open(&json, '{');
    json_key(&json, "mb");
    json_int(&json, mb);
    json_key(&json, "results");
    json_open(&json, '[');
    for (size_t i = 0; i < wanted; i++) {
        int64_t bytes, speed = measure(threads[i], mb << 20, (int64_t)(seconds * 1e9), &bytes);
        if (speed < 0) return fail("%lld MB or %d threads could not be had", (long long)mb, threads[i]);
        json_item(&json);
        json_open(&json, '{');
        json_key(&json, "threads");
        json_int(&json, threads[i]);
        json_key(&json, "bytes");
        json_int(&json, bytes);
        json_key(&json, "gb_per_s");
        json_milli(&json, speed);
        json_close(&json, '}');
    }
    json_close(&json, ']');
    json_close(&json, '}');
    json_newline(&json);
    return json_print(&json) ? 0 : fail("stdout is closed");
}
