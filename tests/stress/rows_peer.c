/*
 * A peer for stored tables that says what no handle would, in an order that a script chooses.
 *
 * Each line of its input is a connection (a letter) and a word with its arguments:
 *
 *     A open                        a greeted connection
 *     A begin TABLE UUID            begin an append; UUID is any number but 0
 *     A row KEY VALUE [BYTES]       a row of it, or of the compaction; filled up with zeros to BYTES
 *     A end ROWS                    end the append
 *     A abort                       give the append or the compaction up
 *     A lease TABLE [SEQ]           lease the head, of now or as of event SEQ
 *     A stream UUID LEASE           begin to compact what is leased by rows of this connection
 *     A compact TABLE UUID          compact the table
 *     A gc TABLE TIMES              so many requests to collect it now
 *     A ping                        its answer tells that all before it was taken
 *     A garbage                     bytes that are no frame
 *     A send                        what was said since the last time, in one write; prints "sent"
 *     A answer                      the same, then the next answer: "APPENDED 7", "ERROR EBUSY", "LEASED 3"; of progress
 *                                   nothing is said; "CLOSED" when the daemon closed
 *     A close
 *
 * Only what prints says a line.  SKADE_RUN_DIR says where.
 */
#include "raw.h"

#include <inttypes.h>

#define CONNECTIONS 26
#define WORDS 4

struct peer {
    int fd;
    uint64_t request; /* the last one */
    struct wr said;   /* and not sent yet */
    size_t begun;     /* where the current frame is */
};

static struct peer peers[CONNECTIONS];

struct line {
    const char *word[WORDS]; /* the verb and its arguments; "" for those that aren't there */
};

static uint64_t number(const struct line *l, int i)
{
    return strtoull(l->word[i], NULL, 10);
}

static struct uuid uuid_number(const struct line *l, int i)
{
    struct uuid uuid = { { 0 } };
    uint64_t n = number(l, i);

    memcpy(uuid.b, &n, sizeof n);
    return uuid;
}

static struct wr *frame_of(struct peer *p)
{
    p->begun = frame_begin(&p->said);
    return &p->said;
}

static void framed(struct peer *p, enum wire_type type)
{
    frame_end(&p->said, p->begun, (uint16_t)type, 0, ++p->request);
}

/* ---- what it can say ------------------------------------------------------------------------------------------------ */

static void say_begin(struct peer *p, const struct line *l)
{
    wire_put_append_begin(frame_of(p), &(struct msg_append_begin){ .table = (uint32_t)number(l, 1),
                                                                   .uuid = uuid_number(l, 2) });
    framed(p, WIRE_APPEND_BEGIN);
}

static void say_row(struct peer *p, const struct line *l)
{
    static const char zeros[1 << 20];
    struct bytes key = bytes_of(l->word[1]), value = bytes_of(l->word[2]);
    size_t size = number(l, 3) > value.len ? number(l, 3) : value.len;
    struct wr record = { 0 };

    if (size - value.len > sizeof zeros)
        die("a row has at most 1 MiB here");
    wr_u8(&record, 1); /* it has a key */
    wr_u8(&record, 0);
    wr_u16(&record, (uint16_t)key.len);
    wr_u32(&record, (uint32_t)size);
    wr_bytes(&record, key.data, key.len);
    wr_bytes(&record, value.data, value.len);
    wr_bytes(&record, zeros, size - value.len);
    wire_put_rows(frame_of(p), &(struct msg_rows){ .records = { (char *)record.data, record.len } });
    framed(p, WIRE_ROWS);
    wr_fini(&record);
}

static void say_end(struct peer *p, const struct line *l)
{
    wire_put_append_end(frame_of(p), &(struct msg_append_end){ .rows = number(l, 1) });
    framed(p, WIRE_APPEND_END);
}

static void say_abort(struct peer *p, const struct line *l)
{
    (void)l;
    wire_put_append_abort(frame_of(p), &(struct msg_append_abort){ 0 });
    framed(p, WIRE_APPEND_ABORT);
}

static void say_lease(struct peer *p, const struct line *l)
{
    uint64_t at = l->word[2][0] ? number(l, 2) : UINT64_MAX;

    wire_put_lease(frame_of(p), &(struct msg_lease){ .at = at, .table = (uint32_t)number(l, 1) });
    framed(p, WIRE_LEASE);
}

static void say_stream(struct peer *p, const struct line *l)
{
    wire_put_compact_begin(frame_of(p),
                           &(struct msg_compact_begin){ .uuid = uuid_number(l, 1), .lease = number(l, 2) });
    framed(p, WIRE_COMPACT_BEGIN);
}

static void say_compact(struct peer *p, const struct line *l)
{
    wire_put_compact(frame_of(p),
                     &(struct msg_compact){ .table = (uint32_t)number(l, 1), .uuid = uuid_number(l, 2) });
    framed(p, WIRE_COMPACT);
}

static void say_gc(struct peer *p, const struct line *l)
{
    for (uint64_t i = 0; i < number(l, 2); i++) {
        wire_put_gc(frame_of(p), &(struct msg_gc){ .table = (uint32_t)number(l, 1), .now = 1 });
        framed(p, WIRE_GC);
    }
}

static void say_ping(struct peer *p, const struct line *l)
{
    (void)l;
    wire_put_ping(frame_of(p), &(struct msg_ping){ 0 });
    framed(p, WIRE_PING);
}

static void say_garbage(struct peer *p, const struct line *l)
{
    (void)l;
    memset(wr_room(&p->said, 64), 0xff, 64);
}

/* ---- what it does --------------------------------------------------------------------------------------------------- */

static void open_peer(struct peer *p, const struct line *l)
{
    (void)l;
    *p = (struct peer){ .fd = greet(), .request = 1 };
}

static void close_peer(struct peer *p, const struct line *l)
{
    (void)l;
    close(p->fd);
    wr_fini(&p->said);
}

static void flush_said(struct peer *p)
{
    send_all(p->fd, &p->said);
    p->said = (struct wr){ 0 };
}

static void send_said(struct peer *p, const struct line *l)
{
    (void)l;
    flush_said(p);
    puts("sent");
}

/* What an answer is told by, behind its name. */
static void print_detail(const struct frame_header *h, const uint8_t *payload)
{
    struct msg_error e;
    uint64_t first;

    if (h->type == WIRE_ERROR && wire_read_error(payload, h->len, &e) == 0) {
        printf(" %s", skade_errname(e.code));
    } else if (h->len >= sizeof first) { /* its number or event is the first field */
        memcpy(&first, payload, sizeof first);
        printf(" %" PRIu64, first);
    }
}

static void answer(struct peer *p, const struct line *l)
{
    const uint8_t *payload = NULL;
    struct frame_header h;

    (void)l;
    flush_said(p);
    do
        h = receive(p->fd, &payload);
    while (h.type == WIRE_PROGRESS);
    fputs(h.type ? wire_name(h.type) : "CLOSED", stdout);
    if (h.type)
        print_detail(&h, payload);
    puts("");
}

static const struct {
    const char *name;
    void (*act)(struct peer *p, const struct line *l);
} verbs[] = {
    { "open", open_peer },  { "close", close_peer },    { "send", send_said },      { "answer", answer },
    { "begin", say_begin }, { "row", say_row },         { "end", say_end },         { "abort", say_abort },
    { "lease", say_lease }, { "stream", say_stream },   { "compact", say_compact }, { "gc", say_gc },
    { "ping", say_ping },   { "garbage", say_garbage },
};

static void act(char *text)
{
    struct line l = { { "", "", "", "" } };
    char *rest = NULL, *who = strtok_r(text, " \n", &rest), *word;

    for (int i = 0; i < WORDS && (word = strtok_r(NULL, " \n", &rest)); i++)
        l.word[i] = word;
    if (!who || *who < 'A' || *who >= 'A' + CONNECTIONS)
        die("a line begins with the letter of a connection");
    for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
        if (strcmp(verbs[i].name, l.word[0]) == 0) {
            verbs[i].act(&peers[*who - 'A'], &l);
            fflush(stdout);
            return;
        }
    die("'%s' is no word: see the beginning of the source", l.word[0]);
}

int main(void)
{
    char text[256];

    while (fgets(text, sizeof text, stdin))
        act(text);
    return 0;
}
