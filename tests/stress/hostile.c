/*
 * Peers that mean no good, or don't know better: bytes that are no frames, frames that are no messages, messages at the
 * wrong time, peers that don't read, don't write, send descriptors.  It speaks the protocol by itself, from docs/PROTOCOL.md.
 *
 * After each of them the daemon lives, has as many descriptors as before, serves a well-behaved client at once, and no
 * event was made.
 *
 *     hostile DAEMON-PID          SKADE_RUN_DIR says where; the daemon has a short frame_timeout
 */
#include "stress.h"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define HEADER 24
#define PATIENCE_MS 20000

enum {
    HELLO = 1,
    PING = 2,
    RESOLVE = 4,
    HISTORY = 7,
    COMMIT = 12,
    RELEASE_ADD = 13,
    RELEASE_END = 14,
    STATS = 23,
    TALLY = 36
};
enum { WELCOME = 64, ERROR = 65, PONG = 66, COMMITTED = 71 };
enum { REQUESTS_END = 37, ANSWERS_END = 90 };

static pid_t daemon_pid;
static uint64_t state = 1;

/* ---- frames ----------------------------------------------------------------------------------------------------- */

struct bytes {
    uint8_t *data;
    size_t len, cap;
};

static void put(struct bytes *b, const void *data, size_t len)
{
    if (b->len + len > b->cap) {
        b->cap = (b->len + len) * 2;
        b->data = realloc(b->data, b->cap);
        if (!b->data)
            die("no memory");
    }
    if (len)
        memcpy(b->data + b->len, data, len);
    b->len += len;
}

static void put_u32(struct bytes *b, uint32_t v)
{
    put(b, &v, 4);
}

static void put_u64(struct bytes *b, uint64_t v)
{
    put(b, &v, 8);
}

static void put_text(struct bytes *b, const char *text)
{
    put_u32(b, (uint32_t)strlen(text));
    put(b, text, strlen(text));
}

/* A frame with a checksum that is right, whatever is in it. */
static void put_frame(struct bytes *b, uint16_t type, uint64_t request, const struct bytes *payload)
{
    uint8_t header[16] = { 0 };
    uint32_t len = (uint32_t)payload->len;

    memcpy(header, &len, 4);
    memcpy(header + 4, &type, 2);
    memcpy(header + 8, &request, 8);
    put(b, header, sizeof header);
    put_u64(b, XXH3_64bits_withSeed(payload->len ? (const void *)payload->data : "", payload->len,
                                    XXH3_64bits_withSeed(header, sizeof header, 0)));
    put(b, payload->data, payload->len);
}

static void put_hello(struct bytes *b, const char *label)
{
    struct bytes p = { 0 };

    put_u32(&p, 1);
    put_u32(&p, 1);
    put_u64(&p, 0);
    put_u64(&p, 0);
    put_text(&p, label);
    put_frame(b, HELLO, 1, &p);
    free(p.data);
}

static void put_empty(struct bytes *b, uint16_t type, uint64_t request)
{
    put_frame(b, type, request, &(struct bytes){ 0 });
}

static void put_commit_row(struct bytes *p, uint32_t table, int64_t snapshot)
{
    uint8_t uuid[16], base = 0;

    for (int i = 0; i < 16; i++)
        uuid[i] = (uint8_t)roll(&state);
    put_u32(p, table);
    put_u32(p, 7);
    put(p, &snapshot, 8);
    put_u64(p, 0);
    put(p, uuid, 16);
    put(p, &base, 1);
    put_text(p, "");
    put_text(p, "s3://hostile/location");
}

static void put_commit(struct bytes *b, uint16_t type, uint64_t request, uint32_t table, int64_t snapshot)
{
    struct bytes p = { 0 };

    put_u32(&p, 1);
    put_commit_row(&p, table, snapshot);
    put_frame(b, type, request, &p);
    free(p.data);
}

/* ---- sockets ------------------------------------------------------------------------------------------------------ */

static int connect_raw(void)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };

    snprintf(to.sun_path, sizeof to.sun_path, "%s/default.sock", getenv("SKADE_RUN_DIR"));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    while (connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
        if (errno != EAGAIN && errno != EINTR)
            die("connect: %s", strerror(errno));
    return fd;
}

/* The daemon may close while we write. */
static void send_all(int fd, const struct bytes *b)
{
    for (size_t at = 0; at < b->len;) {
        ssize_t n = send(fd, b->data + at, b->len - at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return;
        at += (size_t)n;
    }
}

static bool receive_exactly(int fd, void *to, size_t len)
{
    for (size_t have = 0; have < len;) {
        struct pollfd p = { fd, POLLIN, 0 };
        if (poll(&p, 1, PATIENCE_MS) == 0)
            die("the daemon neither answers nor closes");
        ssize_t n = recv(fd, (char *)to + have, len - have, 0);
        if (n <= 0)
            return false;
        have += (size_t)n;
    }
    return true;
}

static uint8_t payload[1 << 21]; /* of the frame that was received last */
static uint32_t payload_len;

/* The type of the next frame; 0: the daemon closed. */
static unsigned receive_frame(int fd)
{
    uint8_t header[HEADER];
    uint32_t len;
    uint16_t type;

    if (!receive_exactly(fd, header, sizeof header))
        return 0;
    memcpy(&len, header, 4);
    memcpy(&type, header + 4, 2);
    if (len > sizeof payload || !receive_exactly(fd, payload, len))
        die("the daemon sent a frame of %u bytes of type %u", len, type);
    payload_len = len;
    return type;
}

static void must_receive(int fd, unsigned type, const char *what)
{
    unsigned got = receive_frame(fd);
    if (got != type)
        die("%s: the answer is %u and not %u", what, got, type);
}

static void must_be_closed(int fd, const char *what)
{
    unsigned type;
    while ((type = receive_frame(fd)) != 0)
        if (type != ERROR && type != WELCOME)
            die("%s: the daemon answered with %u", what, type);
    close(fd);
}

/* An error with these words, and the end. */
static void must_be_refused(int fd, const char *words)
{
    must_receive(fd, ERROR, words);
    if (!memmem(payload, payload_len, words, strlen(words)))
        die("the daemon's refusal doesn't say \"%s\"", words);
    must_be_closed(fd, words);
}

static int greet(void)
{
    struct bytes b = { 0 };
    int fd = connect_raw();

    put_hello(&b, "hostile");
    send_all(fd, &b);
    must_receive(fd, WELCOME, "hello");
    free(b.data);
    return fd;
}

/* ---- the daemon is well -------------------------------------------------------------------------------------------- */

static int count_descriptors(void)
{
    char path[64];
    int n = 0;

    snprintf(path, sizeof path, "/proc/%d/fd", (int)daemon_pid);
    DIR *dir = opendir(path);
    if (!dir)
        die("the daemon is gone");
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

struct health {
    skade *s;
    skade_table table;
    uint64_t seq;
    int descriptors;
};

static uint64_t newest_event(skade *s)
{
    skade_view *v;
    int r = skade_view_open(s, &v);
    if (r < 0)
        die_of(s, "view_open", r);
    uint64_t seq = skade_view_seq(v);
    skade_view_close(v);
    return seq;
}

static struct health examine(void)
{
    struct health h = { .s = open_handle(SKADE_NO_SHM, 5000) };

    if (skade_find_table(h.s, "shop.orders", &h.table) != 1)
        die("the table is not there");
    h.seq = newest_event(h.s);
    h.descriptors = count_descriptors();
    return h;
}

/* A well-behaved client is served although hostile ones are there. */
static void must_be_served(const struct health *h, const char *what)
{
    char where[128];
    struct skade_answer a = SKADE_ANSWER(where, sizeof where);

    int r = skade_resolve(h->s, h->table, 11, &a);
    if (r != 1)
        die("after %s a client gets %d %s: %s", what, r, skade_errname(r), skade_errmsg(h->s));
    if (newest_event(h->s) != h->seq)
        die("%s made events", what);
}

static void must_be_well(const struct health *h, const char *what)
{
    must_be_served(h, what);
    for (int tries = 0; count_descriptors() != h->descriptors; tries++) {
        if (tries == 2000)
            die("after %s the daemon has %d descriptors instead of %d", what, count_descriptors(),
                h->descriptors);
        if (skade_ping(h->s) < 0) /* a turn of its loop */
            die("after %s the daemon doesn't answer", what);
        poll(NULL, 0, 5);
    }
    printf("%s: well\n", what);
    fflush(stdout);
}

/* ---- attacks ----------------------------------------------------------------------------------------------------------- */

static struct bytes hello_and_commit(uint32_t table)
{
    struct bytes b = { 0 };
    put_hello(&b, "prefix");
    put_commit(&b, COMMIT, 2, table, 666);
    return b;
}

static void every_prefix(const struct health *h)
{
    struct bytes b = hello_and_commit(h->table);

    for (size_t len = 0; len < b.len; len++) {
        struct bytes prefix = { b.data, len, 0 };
        int fd = connect_raw();
        send_all(fd, &prefix);
        close(fd);
    }
    free(b.data);
    must_be_well(h, "every prefix of a commit");
}

static void every_flipped_byte(const struct health *h)
{
    struct bytes b = hello_and_commit(h->table);

    for (size_t i = 0; i < b.len; i++) {
        int fd = connect_raw();
        b.data[i] ^= (uint8_t)(1u << (i % 8));
        send_all(fd, &b);
        shutdown(fd, SHUT_WR);
        must_be_closed(fd, "a flipped byte");
        b.data[i] ^= (uint8_t)(1u << (i % 8));
    }
    free(b.data);
    must_be_well(h, "every flipped byte of a commit");
}

static void garbage(const struct health *h)
{
    struct bytes b = { 0 };

    for (int i = 0; i < 16384; i++) {
        uint32_t r = (uint32_t)roll(&state);
        put_u32(&b, i < 4096 ? 0xffffffffu : r);
    }
    for (size_t at = 0; at < b.len; at += 8192) {
        struct bytes piece = { b.data + at, b.len - at, 0 };
        int fd = connect_raw();
        send_all(fd, &piece);
        must_be_closed(fd, "garbage");
    }
    free(b.data);
    must_be_well(h, "garbage");
}

static void silly_lengths(const struct health *h)
{
    static const uint32_t lengths[] = { 0xffffffffu, 0x7fffffffu, 0x80000000u, (1u << 20) + 1, 1u << 24 };

    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        int fd = greet();
        struct bytes b = { 0 };
        put_u32(&b, lengths[i]);
        put_u32(&b, PING);
        put_u64(&b, 2);
        put_u64(&b, 0);
        send_all(fd, &b);
        must_be_closed(fd, "a frame that is too long");
        free(b.data);
    }
    must_be_well(h, "frames that are too long");
}

static void answers_to_the_daemon(const struct health *h)
{
    for (uint16_t type = WELCOME; type < ANSWERS_END; type++) {
        struct bytes b = { 0 };
        int fd = greet();
        put_empty(&b, type, 2);
        put_empty(&b, PING, 3);
        send_all(fd, &b);
        unsigned got = receive_frame(fd);
        if (got != ERROR)
            die("an answer of type %u to the daemon gave %u", type, got);
        close(fd);
        free(b.data);
    }
    must_be_well(h, "answers that were sent to the daemon");
}

static void unknown_messages(const struct health *h)
{
    int fd = greet();
    struct bytes b = { 0 };

    put_empty(&b, 200, 2);
    put_empty(&b, 65535, 3);
    put_empty(&b, REQUESTS_END + 10, 4);
    put_empty(&b, PING, 5);
    send_all(fd, &b);
    for (int i = 0; i < 3; i++)
        must_receive(fd, ERROR, "an unknown message");
    must_receive(fd, PONG, "a ping after unknown messages");
    close(fd);
    free(b.data);
    must_be_well(h, "unknown messages");
}

struct sums {
    uint64_t map, tail, requests;
};

static int take_sum(void *arg, const char *name, uint64_t value, const char *unit, const char *kind,
                    const char *help)
{
    struct sums *s = arg;

    (void)unit, (void)kind, (void)help;
    if (strcmp(name, "lookups_map") == 0)
        s->map = value;
    if (strcmp(name, "lookups_tail") == 0)
        s->tail = value;
    if (strcmp(name, "requests") == 0)
        s->requests = value;
    return 0;
}

static struct sums sums_of(const struct health *h)
{
    struct sums s = { 0, 0, 0 };

    int r = skade_stats(h->s, take_sum, &s);
    if (r < 0)
        die_of(h->s, "stats", r);
    return s;
}

static void put_tally(struct bytes *b, uint64_t epoch, uint64_t generation, uint64_t map, uint64_t tail)
{
    struct bytes p = { 0 };

    put_u64(&p, epoch);
    put_u64(&p, generation);
    put_u64(&p, map);
    put_u64(&p, tail);
    put_frame(b, TALLY, 7, &p);
    free(p.data);
}

static int must_have_no_lag(void *arg, const struct skade_client *c)
{
    bool *seen = arg;

    if (strcmp(c->label, "hostile") != 0)
        return 0;
    if (c->generation != 0 || c->lag != 0)
        die("a generation that was never made is believed: %llu", (unsigned long long)c->generation);
    *seen = true;
    return 0;
}

/* More lookups than anybody can make, of a generation that was never made: nothing is answered, sums only grow. */
static void tall_tales(const struct health *h)
{
    bool seen = false;
    struct sums before = sums_of(h);
    struct bytes b = { 0 };
    uint64_t epoch;
    int fd = greet();

    memcpy(&epoch, payload + 4, sizeof epoch); /* WELCOME: behind the version */
    for (int i = 0; i < 1000; i++)
        put_tally(&b, epoch, i % 3 ? UINT64_MAX : 1000000, UINT64_MAX, i % 2 ? UINT64_MAX - 5 : 0);
    put_empty(&b, PING, 5);
    send_all(fd, &b);
    must_receive(fd, PONG, "a ping after tallies");
    struct sums after = sums_of(h);
    if (after.map <= before.map || after.map - before.map > UINT64_C(1000) << 40 || after.tail <= before.tail)
        die("lookups: %llu and %llu", (unsigned long long)after.map, (unsigned long long)after.tail);
    if (after.requests - before.requests > 5) /* hello, ping, and those of stats */
        die("tallies are counted as requests");
    int64_t r = skade_clients(h->s, must_have_no_lag, &seen);
    if (r < 0 || !seen)
        die("clients: %lld", (long long)r);
    close(fd);
    free(b.data);
    must_be_well(h, "tallies that are not true");
}

static void wrong_order(const struct health *h)
{
    for (uint16_t type = 2; type < REQUESTS_END; type++) {
        struct bytes b = { 0 };
        int fd = connect_raw();
        put_empty(&b, type, 1);
        send_all(fd, &b);
        must_be_refused(fd, "a request before HELLO");
        free(b.data);
    }
    struct bytes twice = { 0 }, zero = { 0 };
    int fd = greet();
    put_hello(&twice, "again");
    send_all(fd, &twice);
    must_be_refused(fd, "a second HELLO");
    fd = greet();
    put_empty(&zero, PING, 0);
    send_all(fd, &zero);
    must_be_refused(fd, "a request without a number");
    free(twice.data);
    free(zero.data);
    must_be_well(h, "requests in a wrong order");
}

/* Payloads that are no messages, under a checksum that is right. */
static void malformed_messages(const struct health *h)
{
    for (uint16_t type = HELLO; type < REQUESTS_END; type++)
        for (int round = 0; round < 40; round++) {
            struct bytes b = { 0 }, p = { 0 };
            int fd = type == HELLO ? connect_raw() : greet();
            size_t len = roll_below(&state, 80);
            put_u32(&p, round % 2 ? 0xffffffffu : (uint32_t)roll_below(&state, 5));
            for (size_t i = 0; i < len; i++)
                put(&p, &(uint8_t){ (uint8_t)(round % 3 ? roll(&state) : 0xff) }, 1);
            put_frame(&b, type, 2, &p);
            send_all(fd, &b);
            shutdown(fd, SHUT_WR);
            while (receive_frame(fd) != 0)
                ;
            close(fd);
            free(b.data);
            free(p.data);
        }
    must_be_well(h, "malformed messages");
}

static void many_at_once(const struct health *h)
{
    struct bytes b = { 0 };
    int fd = greet();

    for (uint64_t i = 0; i < 10000; i++)
        put_empty(&b, PING, i + 2);
    pid_t child = fork_child();
    if (child == 0) {
        send_all(fd, &b);
        _exit(0);
    }
    for (int i = 0; i < 10000; i++)
        must_receive(fd, PONG, "one of 10,000 pings");
    reap(child);
    close(fd);
    free(b.data);
    must_be_well(h, "10,000 requests in one write");
}

/* Ask for much and read nothing: the daemon stops reading and everybody else is served. */
static void deaf_peers(const struct health *h)
{
    struct bytes b = { 0 };
    int fds[20];

    for (uint64_t i = 0; i < 1000; i++)
        put_empty(&b, STATS, i + 2);
    for (int i = 0; i < 20; i++) {
        fds[i] = greet();
        fcntl(fds[i], F_SETFL, O_NONBLOCK);
        for (int round = 0; round < 200 && send(fds[i], b.data, b.len, MSG_NOSIGNAL) > 0; round++)
            ;
    }
    for (int i = 0; i < 200; i++)
        must_be_served(h, "peers that don't read");
    for (int i = 0; i < 20; i++)
        close(fds[i]);
    free(b.data);
    must_be_well(h, "peers that don't read");
}

static void idle_connections(const struct health *h)
{
    static int fds[1000];

    for (int i = 0; i < 1000; i++)
        fds[i] = i % 2 ? greet() : connect_raw();
    must_be_served(h, "1000 idle connections");
    for (int i = 0; i < 1000; i++)
        close(fds[i]);
    must_be_well(h, "1000 idle connections");
}

static void half_a_frame_for_ever(const struct health *h)
{
    struct bytes b = { 0 };

    put_hello(&b, "slow");
    for (size_t len = 1; len < b.len; len += 7) {
        struct bytes part = { b.data, len, 0 };
        int fd = connect_raw();
        send_all(fd, &part);
        if (len % 14 == 1)
            must_be_closed(fd, "half a frame");
        else
            close(fd);
    }
    free(b.data);
    must_be_well(h, "frames that don't come to an end");
}

/* Whoever closes its sending half still gets what it asked for. */
static void half_close(struct health *h)
{
    struct bytes b = { 0 };
    int fd = connect_raw();

    put_hello(&b, "half");
    put_empty(&b, PING, 2);
    put_commit(&b, COMMIT, 3, h->table, 12);
    send_all(fd, &b);
    shutdown(fd, SHUT_WR);
    must_receive(fd, WELCOME, "hello, half closed");
    must_receive(fd, PONG, "a ping, half closed");
    must_receive(fd, COMMITTED, "a commit, half closed");
    if (receive_frame(fd) != 0)
        die("the daemon goes on after a half-closed connection was served");
    close(fd);
    free(b.data);
    h->seq++;
    must_be_well(h, "a half-closed connection");
}

static void send_descriptors(int fd, const struct bytes *b, unsigned count)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int) * 250)];
    } control;
    struct iovec part = { b->data, b->len };
    struct msghdr m = { .msg_iov = &part,
                        .msg_iovlen = 1,
                        .msg_control = &control,
                        .msg_controllen = CMSG_SPACE(sizeof(int) * count) };
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);

    memset(&control, 0, sizeof control);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * count);
    for (unsigned i = 0; i < count; i++)
        memcpy(CMSG_DATA(c) + i * sizeof fd, &fd, sizeof fd);
    if (sendmsg(fd, &m, MSG_NOSIGNAL) < 0)
        die("sendmsg: %s", strerror(errno));
}

static void descriptors(const struct health *h)
{
    static const unsigned counts[] = { 1, 2, 100, 250 };
    int fd = greet(), before = count_descriptors();

    for (int round = 0; round < 40; round++) {
        struct bytes b = { 0 };
        put_empty(&b, PING, (uint64_t)round + 2);
        send_descriptors(fd, &b, counts[round % 4]);
        must_receive(fd, PONG, "a ping with descriptors");
        free(b.data);
    }
    if (count_descriptors() > before)
        die("the daemon took %d descriptors", count_descriptors() - before);
    close(fd);
    must_be_well(h, "descriptors that nobody asked for");
}

static void abandoned_releases(const struct health *h)
{
    for (int i = 0; i < 50; i++) {
        struct bytes b = { 0 }, count = { 0 };
        int fd = greet();
        for (int row = 0; row <= i % 5; row++)
            put_commit(&b, RELEASE_ADD, (uint64_t)row + 2, h->table, 1000 + row);
        if (i % 2) {
            put_u64(&count, 99);
            put_frame(&b, RELEASE_END, 100, &count);
            send_all(fd, &b);
            must_receive(fd, ERROR, "a release of another length");
        } else {
            send_all(fd, &b);
        }
        close(fd);
        free(b.data);
        free(count.data);
    }
    must_be_well(h, "abandoned releases");
}

static void odd_labels(const struct health *h)
{
    static char longest[60001];
    static const char *const labels[] = { "", "\033[2J\n\t", "%s%n%s%n", "\xff\xfe", longest };

    memset(longest, 'x', sizeof longest - 1);
    for (size_t i = 0; i < sizeof labels / sizeof labels[0]; i++) {
        struct bytes b = { 0 };
        int fd = connect_raw();
        put_hello(&b, labels[i]);
        send_all(fd, &b);
        receive_frame(fd);
        close(fd);
        free(b.data);
    }
    must_be_well(h, "odd labels");
}

int main(int argc, char **argv)
{
    struct rlimit limit = { 4096, 4096 };

    if (argc != 2)
        die("usage: hostile DAEMON-PID");
    daemon_pid = (pid_t)atol(argv[1]);
    setrlimit(RLIMIT_NOFILE, &limit);
    struct health h = examine();
    every_prefix(&h);
    every_flipped_byte(&h);
    garbage(&h);
    silly_lengths(&h);
    answers_to_the_daemon(&h);
    unknown_messages(&h);
    tall_tales(&h);
    wrong_order(&h);
    malformed_messages(&h);
    many_at_once(&h);
    deaf_peers(&h);
    idle_connections(&h);
    half_a_frame_for_ever(&h);
    half_close(&h);
    descriptors(&h);
    abandoned_releases(&h);
    odd_labels(&h);
    skade_close(h.s);
    return 0;
}
