#include "choose.h"

#include <math.h>

size_t largest(const struct logits *logits, const struct ids *barred, int32_t also, struct rival *found, size_t most) {
    size_t count = 0;
    for (size_t id = 0; id < logits->count; id++) {
        float logit = logits->row[id];
        if (count == most && !(logit > found[most - 1].logit)) continue;
        if ((int32_t)id == also || (barred && ids_have(barred, (int32_t)id))) continue;
        size_t place = count < most ? count++ : most - 1;
        for (; place && found[place - 1].logit < logit; place--) found[place] = found[place - 1];
        found[place] = (struct rival){(int32_t)id, logit};
    }
    return count;
}

/* A row of nothing but zeros is what an engine leaves that computed nothing. */
static bool is_empty(const struct logits *logits) {
    for (size_t id = 0; id < logits->count; id++)
        if (logits->row[id] != 0.0f) return false;
    return true;
}

const char *choose(const struct logits *logits, const struct ids *barred, int32_t *chosen, struct rival best[10]) {
    struct rival alone;
    struct rival *found = best ? best : &alone;
    bool no_number = false;
    for (size_t id = 0; id < logits->count; id++) no_number |= isnan(logits->row[id]);
    size_t count = largest(logits, NULL, -1, found, best ? 10 : 1);
    if (no_number || (count && isinf(found[0].logit))) return "the logits are not finite numbers";
    if (is_empty(logits)) return "the logits are all zero";
    struct rival top = found[0];
    for (size_t n = 1; n < count && barred && ids_have(barred, top.id); n++) top = found[n];
    if (barred && ids_have(barred, top.id) && (!largest(logits, barred, -1, &top, 1) || isinf(top.logit)))
        return "the logits leave no token that may be chosen";
    *chosen = top.id;
    return NULL;
}
