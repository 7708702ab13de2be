/* CPU features by the names that /proc/cpuinfo uses. */
#ifndef PROBE_FEATURES_H
#define PROBE_FEATURES_H

#include "json.h"

/* Put an array of names: from the auxiliary vector on arm64, elsewhere from the cpuinfo line (which is cut up). */
void put_features(struct json *json, char *cpuinfo_line);

#endif
