#include "engine.h"

#include <stdarg.h>
#include <stdio.h>

void trouble_say(struct trouble *trouble, const char *stage, const char *format, ...) {
    char sentence[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    trouble->stage = stage;
    line_clear(&trouble->message);
    line_put(&trouble->message, "%s", sentence);
}
