/* Memory that really lies in RAM. */
#ifndef SYNTHETIC_MEMORY_H
#define SYNTHETIC_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* What this process holds now, in bytes; -1 where /proc may not be read. */
int64_t resident_bytes(void);

/* Touch so many bytes and keep them. */
bool take_memory(int64_t bytes);

/* Touch as much as is missing until the process holds `bytes`. */
bool grow_to(int64_t bytes);

#endif
