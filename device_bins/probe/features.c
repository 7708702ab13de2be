#include "features.h"

#include <stdlib.h>
#include <string.h>

#if defined(__aarch64__) || defined(__arm__)
#include <sys/auxv.h>

#if defined(__arm__)
/* As below, for 32 bit (Linux, arch/arm/include/uapi/asm/hwcap.h). */
static const char *const hwcap[64] = {
    "swp",  "half",    "thumb", "26bit",    "fastmult", "fpa",   "vfp",   "edsp",   "java", "iwmmxt",
    "crunch", "thumbee", "neon", "vfpv3",   "vfpv3d16", "tls",   "vfpv4", "idiva",  "idivt", "vfpd32",
    "lpae", "evtstrm", "fphp",  "asimdhp",  "asimddp",  "asimdfhm", "asimdbf16", "i8mm",
};
static const char *const hwcap2[64] = {"aes", "pmull", "sha1", "sha2", "crc32", "sb", "ssbs"};
#else
/* Index is the bit of AT_HWCAP / AT_HWCAP2 (Linux, arch/arm64/include/uapi/asm/hwcap.h); the names are those that
 * /proc/cpuinfo prints. NULL: a bit without a name here. */
static const char *const hwcap[64] = {
    "fp",      "asimd", "evtstrm", "aes",  "pmull", "sha1",  "sha2",    "crc32",  "atomics", "fphp",  "asimdhp",
    "cpuid",   "asimdrdm", "jscvt", "fcma", "lrcpc", "dcpop", "sha3",   "sm3",    "sm4",     "asimddp", "sha512",
    "sve",     "asimdfhm", "dit",  "uscat", "ilrcpc", "flagm", "ssbs",  "sb",     "paca",    "pacg",  "gcs",
};
static const char *const hwcap2[64] = {
    "dcpodp",    "sve2",      "sveaes",    "svepmull",  "svebitperm", "svesha3",   "svesm4",     "flagm2",
    "frint",     "svei8mm",   "svef32mm",  "svef64mm",  "svebf16",    "i8mm",      "bf16",       "dgh",
    "rng",       "bti",       "mte",       "ecv",       "afp",        "rpres",     "mte3",       "sme",
    "smei16i64", "smef64f64", "smei8i32",  "smef16f32", "smeb16f32",  "smef32f32", "smefa64",    "wfxt",
    "ebf16",     "sveebf16",  "cssc",      "rprfm",     "sve2p1",     "sme2",      "sme2p1",     "smei16i32",
    "smebi32i32", "smeb16b16", "smef16f16", "mops",     "hbc",        "sveb16b16", "lrcpc3",     "lse128",
    "fpmr",      "lut",       "faminmax",  "f8cvt",     "f8fma",      "f8dp4",     "f8dp2",      "f8e4m3",
    "f8e5m2",    "smelutv2",  "smef8f16",  "smef8f32",  "smesf8fma",  "smesf8dp4", "smesf8dp2",  "poe",
};
#endif

static void put_bits(struct json *json, uint64_t bits, const char *const *names) {
    for (size_t bit = 0; bit < 64; bit++) {
        if (!((bits >> bit) & 1) || !names[bit]) continue;
        json_item(json);
        json_text(json, names[bit]);
    }
}

void put_features(struct json *json, char *cpuinfo_line) {
    (void)cpuinfo_line; /* the kernel tells this process directly; nobody can have faked it */
    json_open(json, '[');
    put_bits(json, getauxval(AT_HWCAP), hwcap);
    put_bits(json, getauxval(AT_HWCAP2), hwcap2);
    json_close(json, ']');
}
#else
void put_features(struct json *json, char *cpuinfo_line) {
    json_open(json, '[');
    for (char *word; cpuinfo_line && (word = strsep(&cpuinfo_line, " \t"));) {
        if (!*word) continue;
        json_item(json);
        json_text(json, word);
    }
    json_close(json, ']');
}
#endif
