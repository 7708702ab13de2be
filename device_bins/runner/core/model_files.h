/* The model's files, looked at before the engine is: it takes half a weight file and still shows a speed. */
#ifndef RUNNER_MODEL_FILES_H
#define RUNNER_MODEL_FILES_H

#include "engine.h"

#ifdef __cplusplus
extern "C" {
#endif

struct model_files {
    struct line config; /* path of config.json */
    struct ids stops;   /* what the tokenizer says ends an answer */
};

/* False after saying which file is missing, empty, a Git LFS pointer, not what it should be, or too short. */
bool check_model(const char *model, struct model_files *files, struct trouble *trouble);
void model_files_free(struct model_files *files);

#ifdef __cplusplus
}
#endif

#endif
