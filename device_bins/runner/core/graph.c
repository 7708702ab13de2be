#include "graph.h"

#include <stdbool.h>

/* Fields of Net, SubGraphProto and Op (MNN's schema/default/MNN.fbs, 3.6.1; newer ones only append). */
enum { NET_OPS = 3, NET_SUBGRAPHS = 10, SUBGRAPH_NODES = 4, OP_MAIN_TYPE = 1, OP_MAIN = 2 };

struct graph {
    const uint8_t *data;
    size_t size;
    size_t operators; /* looked at so far: each has its own place in a real file */
    bool bad;
};

/* A table begins with a signed step back to its list of fields. */
struct table {
    size_t at, fields, fields_bytes;
};

struct list {
    size_t first, count;
};

static uint64_t number(struct graph *graph, size_t at, size_t width) {
    uint64_t value = 0;
    if (at > graph->size || graph->size - at < width) return graph->bad = true, 0;
    for (size_t n = 0; n < width; n++) value |= (uint64_t)graph->data[at + n] << 8 * n;
    return value;
}

static struct table table_at(struct graph *graph, size_t at) {
    struct table table = {.at = at};
    int64_t fields = (int64_t)at - (int32_t)number(graph, at, 4);
    if (fields < 0) return graph->bad = true, table;
    table.fields = (size_t)fields;
    table.fields_bytes = (size_t)number(graph, table.fields, 2);
    return table;
}

/* Where a field lies, 0 when it is not there. */
static size_t slot(struct graph *graph, struct table table, size_t field) {
    size_t place = 4 + 2 * field;
    size_t offset = place < table.fields_bytes ? (size_t)number(graph, table.fields + place, 2) : 0;
    return offset ? table.at + offset : 0;
}

static size_t follow(struct graph *graph, size_t at) { return at + (size_t)number(graph, at, 4); }

static struct list list_of(struct graph *graph, struct table table, size_t field, size_t width) {
    size_t at = slot(graph, table, field);
    if (!at) return (struct list){0};
    size_t start = follow(graph, at);
    struct list list = {start + 4, (size_t)number(graph, start, 4)};
    if (graph->bad || list.count > (graph->size - list.first) / width) return graph->bad = true, (struct list){0};
    return list;
}

/* Where `external: [offset, size, size, ...]` stands in the tables that may keep data in the weight file, by their
 * number in the union OpParameter: Blob, Convolution2D, Scale, Convolution3D, LayerNorm, GroupNorm. */
static int external_field(uint64_t kind) {
    static const struct {
        uint64_t kind;
        int field;
    } known[] = {{7, 9}, {9, 6}, {58, 3}, {80, 3}, {88, 5}, {95, 6}};
    for (size_t n = 0; n < sizeof known / sizeof *known; n++)
        if (known[n].kind == kind) return known[n].field;
    return -1;
}

static int64_t piece_end(struct graph *graph, struct table main, int field) {
    struct list list = list_of(graph, main, (size_t)field, 8);
    int64_t end = 0;
    for (size_t n = 0; n < list.count && !graph->bad; n++) {
        int64_t part = (int64_t)number(graph, list.first + n * 8, 8);
        if (part < 0 || part > INT64_MAX - end) return graph->bad = true, 0;
        end += part;
    }
    return end;
}

static int64_t operators_end(struct graph *graph, struct list places) {
    int64_t end = 0;
    for (size_t n = 0; n < places.count && !graph->bad; n++) {
        struct table op = table_at(graph, follow(graph, places.first + n * 4));
        size_t kind = slot(graph, op, OP_MAIN_TYPE), main = slot(graph, op, OP_MAIN);
        int field = kind ? external_field(number(graph, kind, 1)) : -1;
        if (++graph->operators > graph->size / 4) graph->bad = true;
        if (field < 0 || !main || graph->bad) continue;
        int64_t one = piece_end(graph, table_at(graph, follow(graph, main)), field);
        if (one > end) end = one;
    }
    return end;
}

int64_t graph_weight_bytes(const uint8_t *data, size_t size) {
    struct graph graph = {.data = data, .size = size};
    struct table net = table_at(&graph, (size_t)number(&graph, 0, 4));
    struct list places = list_of(&graph, net, NET_OPS, 4), subgraphs = list_of(&graph, net, NET_SUBGRAPHS, 4);
    if (!places.count) return -1;
    int64_t end = operators_end(&graph, places);
    for (size_t n = 0; n < subgraphs.count && !graph.bad; n++) {
        struct table subgraph = table_at(&graph, follow(&graph, subgraphs.first + n * 4));
        int64_t one = operators_end(&graph, list_of(&graph, subgraph, SUBGRAPH_NODES, 4));
        if (one > end) end = one;
    }
    return graph.bad ? -1 : end;
}
