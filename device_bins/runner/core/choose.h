/* Which token a row of logits wants. */
#ifndef RUNNER_CHOOSE_H
#define RUNNER_CHOOSE_H

#include "engine.h"

enum { MOST_RIVALS = 32 };

struct rival {
    int32_t id;
    float logit;
};

/* The `most` largest logits, largest first, of equal ones the smaller id first; without `barred` (NULL: none) and
 * without `also`, -1 for none. Returns how many. */
size_t largest(const struct logits *logits, const struct ids *barred, int32_t also, struct rival *found, size_t most);

/* Put the most likely token that is not barred into `chosen`, and the row's ten best, barred ones too, into `best` when
 * it is not NULL. Returns NULL, or what is wrong with the logits. */
const char *choose(const struct logits *logits, const struct ids *barred, int32_t *chosen, struct rival best[10]);

#endif
