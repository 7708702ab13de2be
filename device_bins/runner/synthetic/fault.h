/* The ordered end of the program. */
#ifndef SYNTHETIC_FAULT_H
#define SYNTHETIC_FAULT_H

#include "order.h"

/* Die as ordered. Returns only for those faults that spoil a line instead (NON_UTF8, TRUNCATE) and for ERROR. */
void commit_fault(const struct order *order, int events_fd);

#endif
