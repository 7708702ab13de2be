/* Memory that really lies in RAM. */
#ifndef SYNTHETIC_MEMORY_H
#define SYNTHETIC_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* Touch so many bytes and keep them. */
bool take_memory(int64_t bytes);

/* Touch as much as is missing until the process holds `bytes`. */
bool grow_to(int64_t bytes);

#endif
