/* SHA-256 blocks by the CPU's own instructions: SHA-NI on x86-64, the crypto extension on arm64. */
#include "sha256.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#define SHA_TARGET __attribute__((target("sha,sse4.1,ssse3")))

SHA_TARGET static void blocks_x86(uint32_t state[8], const unsigned char *data, size_t blocks) {
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    /* the instructions want the state as (a b e f) and (c d g h), high word first */
    __m128i dcba = _mm_loadu_si128((const __m128i *)(const void *)&state[0]);
    __m128i hgfe = _mm_loadu_si128((const __m128i *)(const void *)&state[4]);
    __m128i cdab = _mm_shuffle_epi32(dcba, 0xb1), efgh = _mm_shuffle_epi32(hgfe, 0x1b);
    __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
    for (; blocks; blocks--, data += 64) {
        __m128i w[4], abef_before = abef, cdgh_before = cdgh;
        for (int i = 0; i < 4; i++)
            w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)(data + 16 * i)), swap);
#pragma clang loop unroll(full)
        for (int i = 0; i < 16; i++) {
            __m128i now = w[i & 3];
            __m128i sum = _mm_add_epi32(now, _mm_loadu_si128((const __m128i *)(const void *)&sha256_k[4 * i]));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
            if (i >= 12) continue;
            /* words 16 rounds later replace these */
            __m128i next = _mm_sha256msg1_epu32(now, w[(i + 1) & 3]);
            next = _mm_add_epi32(next, _mm_alignr_epi8(w[(i + 3) & 3], w[(i + 2) & 3], 4));
            w[i & 3] = _mm_sha256msg2_epu32(next, w[(i + 3) & 3]);
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)(void *)&state[0], _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128((__m128i *)(void *)&state[4], _mm_alignr_epi8(dchg, feba, 8));
}

sha256_blocks *sha256_blocks_accelerated(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_SSSE3) || !(c & bit_SSE4_1)) return NULL;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & (1u << 29))) return NULL;
    return blocks_x86;
}

#elif defined(__aarch64__)
#include <arm_neon.h>
#include <sys/auxv.h>

#define HWCAP_BIT_SHA2 6

__attribute__((target("sha2"))) static void blocks_arm64(uint32_t state[8], const unsigned char *data, size_t blocks) {
    uint32x4_t abcd = vld1q_u32(&state[0]), efgh = vld1q_u32(&state[4]);
    for (; blocks; blocks--, data += 64) {
        uint32x4_t w[4], abcd_before = abcd, efgh_before = efgh;
        for (int i = 0; i < 4; i++) w[i] = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(data + 16 * i)));
#pragma clang loop unroll(full)
        for (int i = 0; i < 16; i++) {
            uint32x4_t sum = vaddq_u32(w[i & 3], vld1q_u32(&sha256_k[4 * i])), old = abcd;
            abcd = vsha256hq_u32(abcd, efgh, sum);
            efgh = vsha256h2q_u32(efgh, old, sum);
            if (i < 12)
                w[i & 3] = vsha256su1q_u32(vsha256su0q_u32(w[i & 3], w[(i + 1) & 3]), w[(i + 2) & 3], w[(i + 3) & 3]);
        }
        abcd = vaddq_u32(abcd, abcd_before);
        efgh = vaddq_u32(efgh, efgh_before);
    }
    vst1q_u32(&state[0], abcd);
    vst1q_u32(&state[4], efgh);
}

sha256_blocks *sha256_blocks_accelerated(void) {
    return (getauxval(AT_HWCAP) >> HWCAP_BIT_SHA2) & 1 ? blocks_arm64 : NULL;
}

#else
sha256_blocks *sha256_blocks_accelerated(void) { return NULL; }
#endif
