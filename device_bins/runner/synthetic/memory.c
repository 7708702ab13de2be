#include "memory.h"

#include "process.h"

#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

bool take_memory(int64_t bytes) {
    if (bytes <= 0) return true;
    size_t size = (size_t)bytes;
    char *block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) return false;
    (void)madvise(block, size, MADV_NOHUGEPAGE); /* a huge page would be more than was ordered */
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t at = 0; at < size; at += page) *(volatile char *)(block + at) = (char)(at / page | 1);
    return true;
}

bool grow_to(int64_t bytes) {
    int64_t held = resident_bytes();
    return take_memory(bytes - (held > 0 ? held : 0));
}
