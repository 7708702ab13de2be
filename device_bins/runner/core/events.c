#include "hearing.h"
#include "run.h"

void event_begin(struct run *run, const char *event) {
    line_clear(&run->line);
    line_put(&run->line, "{\"event\": \"%s\"", event);
}

void event_end(struct run *run, enum stage stage) {
    line_put(&run->line, "}\n");
    if (run->engine->spoil) run->engine->spoil(run->engine, stage, &run->line);
    write_all(run->engine->events_fd, run->line.data, run->line.length);
}

void with_complaint(struct line *message) {
    struct heard heard = hearing_ask();
    if (heard.complaints.length)
        line_put(message, "; the engine's last words: %s", line_string(&heard.complaints));
    heard_free(&heard);
}
