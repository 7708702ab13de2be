/* SHA-256 (FIPS 180-4). The block function is chosen once: the CPU's own instructions where it has them. */
#ifndef PROBE_SHA256_H
#define PROBE_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef void sha256_blocks(uint32_t state[8], const unsigned char *data, size_t blocks);

struct sha256 {
    uint32_t state[8];
    uint64_t length;
    unsigned char tail[64];
    sha256_blocks *blocks;
};

extern const uint32_t sha256_k[64];

void sha256_blocks_portable(uint32_t state[8], const unsigned char *data, size_t blocks);

/* The accelerated block function of this CPU, or NULL. */
sha256_blocks *sha256_blocks_accelerated(void);

void sha256_start(struct sha256 *sha, sha256_blocks *blocks);
void sha256_add(struct sha256 *sha, const unsigned char *data, size_t length);
void sha256_end(struct sha256 *sha, unsigned char digest[32]);

/* The same as 64 hex digits and a NUL. */
void sha256_hex(struct sha256 *sha, char hex[65]);

#endif
