/* floor: what this machine can do at most: receive, write, answer, with the least protocol work.
 *
 *   cc -O2 -pthread -o floor floor.c
 *   floor -p PORT -d DIRECTORY -P PARTITIONS -m direct|sync
 *
 * It understands three requests and trusts every one of them; topics are ignored:
 *   put T P len flag crc opaque   the record (its checksum taken from the request, its id a counter) is appended to
 *                                 DIRECTORY/partition-P.  direct: answered after the write.  sync: after an fsync
 *                                 that began after the write.
 *   get T G P offset max opaque   a range of the file by sendfile, or 404, 301, 400
 *   version [opaque]
 * Anything else closes the connection.  An error of the disk ends the process.
 *
 * One epoll thread does all but fsync.  A round is one epoll_wait: every readable connection is read once, its puts
 * are gathered, then each partition gets one writev and each connection one send.  In sync mode a thread for each
 * partition runs fsync while later appends gather, and wakes the epoll thread over an eventfd.
 * Limits: none on the size of a body or of the queues; it is a yardstick, not a server.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { RECORD_HEADER = 20, INPUT_BYTES = 1 << 18, EVENTS = 512, HEADER_LIMIT = 4096, REPLY_LIMIT = 128, MAX_DESCRIPTORS = 65536 };

typedef struct {
    int fd;
    unsigned generation;     /* a waiting reply must not reach a later connection on the same descriptor */
    char *in;                /* requests; bytes before in_at are used up, but held until the round's writev */
    size_t in_at, in_len, in_cap;
    char *out;               /* replies; a file range goes between the bytes before and after file_at */
    size_t out_at, out_len, out_cap;
    size_t file_at;
    int file_fd;
    off_t file_offset;
    size_t file_left;        /* while a range is being sent nothing more is parsed */
    int wants_write, touched, closing;
    unsigned watched;        /* the events epoll knows */
} conn_t;

typedef struct { int fd; unsigned generation; int partition; long opaque; uint64_t id; off_t offset; off_t end; } put_t;

typedef struct { put_t *items; size_t first, count, cap; } puts_t;

typedef struct {
    int fd;
    off_t size;              /* with the puts gathered in this round */
    off_t readable;          /* written (direct) or synced (sync): what a get sees, epoll thread only */
    struct iovec *batch; int batch_count, batch_cap;
    unsigned char (*spare)[RECORD_HEADER]; int spare_count, spare_cap; /* record headers that do not fit over the request's */
    puts_t waiting;          /* sync: written, not yet answered */
    pthread_mutex_t lock; pthread_cond_t appended;
    off_t written, synced;   /* under lock */
} partition_t;

static int partition_count = 4, sync_mode, epoll_fd, wake_fd, listen_fd;
static partition_t *partitions;
static conn_t *conns[MAX_DESCRIPTORS];
static int *touched_fds, touched_count;
static puts_t round_puts;
static uint64_t next_id = 1;

static void die(const char *why) { fprintf(stderr, "floor: %s: %s\n", why, strerror(errno)); exit(1); }

static void *grown(void *old, size_t bytes) {
    void *p = realloc(old, bytes);
    if (!p) die("out of memory");
    return p;
}

static void push_put(puts_t *q, put_t put) {
    if (q->first + q->count == q->cap) {
        if (q->first > q->cap / 2) {
            memmove(q->items, q->items + q->first, q->count * sizeof *q->items);
            q->first = 0;
        } else {
            q->cap = q->cap ? q->cap * 2 : 1024;
            q->items = grown(q->items, q->cap * sizeof *q->items);
        }
    }
    q->items[q->first + q->count++] = put;
}

/* ---- replies ---- */

static char *decimal(char *to, uint64_t n) {
    char digits[20];
    int i = 0;
    do digits[i++] = '0' + n % 10; while (n /= 10);
    while (i) *to++ = digits[--i];
    return to;
}

static char *signed_decimal(char *to, long n) {
    if (n < 0) { *to++ = '-'; return decimal(to, -(uint64_t)n); }
    return decimal(to, n);
}

static char *room_for_reply(conn_t *c, size_t body) {
    if (c->out_cap - c->out_len < REPLY_LIMIT + body) {
        c->out_cap = c->out_cap * 2 + REPLY_LIMIT + body + 4096;
        c->out = grown(c->out, c->out_cap);
    }
    return c->out + c->out_len;
}

static void touch(conn_t *c) {
    if (!c->touched) { c->touched = 1; touched_fds[touched_count++] = c->fd; }
}

static void reply_text(conn_t *c, int code, const char *body, long opaque) {
    size_t n = strlen(body);
    char *to = room_for_reply(c, n);
    c->out_len += sprintf(to, "result %d %zu %ld\r\n%s", code, n, opaque, body);
    touch(c);
}

static void reply_stored(const put_t *put) {
    conn_t *c = conns[put->fd];
    if (!c || c->generation != put->generation) return;
    char body[64], *end = decimal(body, put->id);
    *end++ = ' ';
    end = decimal(end, put->partition);
    *end++ = ' ';
    end = decimal(end, put->offset);
    char *start = room_for_reply(c, 0), *to = start;
    memcpy(to, "result 200 ", 11);
    to = decimal(to + 11, end - body);
    *to++ = ' ';
    to = signed_decimal(to, put->opaque);
    *to++ = '\r'; *to++ = '\n';
    memcpy(to, body, end - body);
    c->out_len += to + (end - body) - start;
    touch(c);
}

/* ---- connections ---- */

static void watch(conn_t *c) {
    struct epoll_event e = {.events = (c->file_left ? 0 : EPOLLIN) | (c->wants_write ? EPOLLOUT : 0), .data.fd = c->fd};
    if (e.events == c->watched) return;
    c->watched = e.events;
    epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &e);
}

static void drop(conn_t *c) {
    conns[c->fd] = NULL;
    close(c->fd);
    free(c->in); free(c->out); free(c);
}

static void accept_all(void) {
    static unsigned generation;
    for (;;) {
        int fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), one = 1;
        if (fd < 0) return;
        if (fd >= MAX_DESCRIPTORS) { close(fd); continue; }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        conn_t *c = grown(NULL, sizeof *c);
        *c = (conn_t){.fd = fd, .generation = ++generation, .in = grown(NULL, INPUT_BYTES), .in_cap = INPUT_BYTES, .watched = EPOLLIN};
        conns[fd] = c;
        struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
        if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e)) die("epoll_ctl");
    }
}

/* Sends what there is: replies, the file range, replies after it. Returns -1 when the connection is gone. */
static int flush_out(conn_t *c) {
    int blocked = 0;
    while (!blocked && (c->out_at < c->out_len || c->file_left)) {
        size_t stop = c->file_left ? c->file_at : c->out_len;
        if (c->out_at < stop) {
            ssize_t n = send(c->fd, c->out + c->out_at, stop - c->out_at, MSG_NOSIGNAL | (c->file_left ? MSG_MORE : 0));
            if (n < 0) { if (errno != EAGAIN) return -1; blocked = 1; }
            else c->out_at += n;
        } else {
            ssize_t n = sendfile(c->fd, c->file_fd, &c->file_offset, c->file_left);
            if (n < 0) { if (errno != EAGAIN) return -1; blocked = 1; }
            else c->file_left -= n;
        }
    }
    if (c->out_at == c->out_len && !c->file_left) c->out_at = c->out_len = 0;
    c->wants_write = blocked;
    watch(c);
    return 0;
}

/* ---- requests ---- */

/* Reads one integer and the separator after it; *p is NULL from then on when there is none. */
static long number(const char **p, const char *end) {
    const char *s = *p;
    if (!s) return 0;
    int negative = s < end && *s == '-';
    if (negative) s++;
    const char *first = s;
    long n = 0;
    while (s < end && *s >= '0' && *s <= '9') n = n * 10 + (*s++ - '0');
    if (s == first || (s < end && *s != ' ')) { *p = NULL; return 0; }
    *p = s < end ? s + 1 : s;
    return negative ? -n : n;
}

static const char *after_word(const char *p, const char *end) {
    const char *space = p ? memchr(p, ' ', end - p) : NULL;
    return space ? space + 1 : NULL;
}

static void gather(partition_t *t, void *base, size_t bytes) {
    if (t->batch_count == t->batch_cap) {
        t->batch_cap = t->batch_cap ? t->batch_cap * 2 : 256;
        t->batch = grown(t->batch, t->batch_cap * sizeof *t->batch);
    }
    t->batch[t->batch_count++] = (struct iovec){base, bytes};
}

static void pack_record_header(unsigned char *to, uint32_t len, uint32_t crc, uint64_t id, uint32_t flag) {
    len = htobe32(len); crc = htobe32(crc); id = htobe64(id); flag = htobe32(flag);
    memcpy(to, &len, 4); memcpy(to + 4, &crc, 4); memcpy(to + 8, &id, 8); memcpy(to + 16, &flag, 4);
}

static long write_batch(partition_t *t);

/* The record header is laid over the request's own, just before the body, so that a record is one iovec. */
static int take_put(conn_t *c, const char *p, const char *end, char *header, char *body) {
    p = after_word(p, end);
    long partition = number(&p, end), len = number(&p, end), flag = number(&p, end), crc = number(&p, end), opaque = number(&p, end);
    if (!p || partition < 0 || partition >= partition_count) return -1;
    partition_t *t = &partitions[partition];
    put_t put = {c->fd, c->generation, partition, opaque, next_id++, t->size, t->size + RECORD_HEADER + len};
    if (body - header >= RECORD_HEADER) {
        pack_record_header((unsigned char *)body - RECORD_HEADER, len, crc, put.id, flag);
        gather(t, body - RECORD_HEADER, RECORD_HEADER + len);
    } else {
        if (t->spare_count == t->spare_cap) { write_batch(t); t->spare_count = 0; }
        pack_record_header(t->spare[t->spare_count], len, crc, put.id, flag);
        gather(t, t->spare[t->spare_count++], RECORD_HEADER);
        gather(t, body, len);
    }
    t->size = put.end;
    push_put(&round_puts, put);
    return 0;
}

static int take_get(conn_t *c, const char *p, const char *end) {
    p = after_word(after_word(p, end), end);
    long partition = number(&p, end), offset = number(&p, end), max = number(&p, end), opaque = number(&p, end);
    if (!p) return -1;
    if (partition < 0 || partition >= partition_count) { reply_text(c, 404, "no such partition", opaque); return 0; }
    partition_t *t = &partitions[partition];
    if (max <= 0) reply_text(c, 400, "Bad request,invalid max size", opaque);
    else if (offset < 0) reply_text(c, 301, "0", opaque);
    else if (offset >= t->readable) reply_text(c, 404, "Could not find message at position", opaque);
    else {
        long n = t->readable - offset < max ? t->readable - offset : max;
        char *to = room_for_reply(c, 0);
        c->out_len += sprintf(to, "value %ld %ld\r\n", n, opaque);
        c->file_at = c->out_len; c->file_fd = t->fd; c->file_offset = offset; c->file_left = n;
        touch(c);
    }
    return 0;
}

/* Takes whole requests from the input. Returns -1 to close. */
static int parse(conn_t *c) {
    while (c->in_at < c->in_len && !c->file_left) {
        char *start = c->in + c->in_at;
        size_t have = c->in_len - c->in_at;
        char *nl = memchr(start, '\n', have < HEADER_LIMIT ? have : HEADER_LIMIT);
        if (!nl) return have < HEADER_LIMIT ? 0 : -1;
        if (nl == start || nl[-1] != '\r') return -1;
        const char *end = nl - 1;
        char *body = nl + 1;
        if (end - start > 4 && !memcmp(start, "put ", 4)) {
            const char *p = after_word(after_word(start + 4, end), end);
            long len = number(&p, end);
            if (!p || len < 0 || len > INT_MAX) return -1;
            if (c->in + c->in_len - body < len) return 0; /* the next read makes room; here the batch points into the buffer */
            if (take_put(c, start + 4, end, start, body)) return -1;
            body += len;
        } else if (end - start > 4 && !memcmp(start, "get ", 4)) {
            if (take_get(c, start + 4, end)) return -1;
        } else if (end - start >= 7 && !memcmp(start, "version", 7)) {
            const char *p = after_word(start, end);
            long opaque = p ? number(&p, end) : INT_MAX;
            reply_text(c, 200, "floor", opaque);
        } else return -1;
        c->in_at = body - c->in;
    }
    return 0;
}

static int read_and_parse(conn_t *c) {
    if (c->in_at) { memmove(c->in, c->in + c->in_at, c->in_len - c->in_at); c->in_len -= c->in_at; c->in_at = 0; }
    if (c->in_len == c->in_cap) { c->in_cap *= 2; c->in = grown(c->in, c->in_cap); }
    ssize_t n = recv(c->fd, c->in + c->in_len, c->in_cap - c->in_len, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (n <= 0) return -1;
    c->in_len += n;
    return parse(c);
}

/* ---- the disk ---- */

/* Writes the partition's batch. Returns the bytes written. */
static long write_batch(partition_t *t) {
    long total = 0;
    for (int at = 0; at < t->batch_count;) {
        int n = t->batch_count - at < IOV_MAX ? t->batch_count - at : IOV_MAX;
        ssize_t done = writev(t->fd, t->batch + at, n);
        if (done < 0) { if (errno == EINTR) continue; die("cannot write"); }
        total += done;
        while (at < t->batch_count && (size_t)done >= t->batch[at].iov_len) done -= t->batch[at++].iov_len;
        if (done) { t->batch[at].iov_base = (char *)t->batch[at].iov_base + done; t->batch[at].iov_len -= done; }
    }
    t->batch_count = 0;
    return total;
}

static void *sync_thread(void *arg) {
    partition_t *t = arg;
    uint64_t one = 1;
    pthread_mutex_lock(&t->lock);
    for (;;) {
        while (t->written == t->synced) pthread_cond_wait(&t->appended, &t->lock);
        off_t target = t->written;
        pthread_mutex_unlock(&t->lock);
        if (fsync(t->fd)) die("cannot fsync");
        pthread_mutex_lock(&t->lock);
        t->synced = target;
        pthread_mutex_unlock(&t->lock);
        if (write(wake_fd, &one, sizeof one) != sizeof one) die("cannot wake the epoll thread");
        pthread_mutex_lock(&t->lock);
    }
    return NULL;
}

static void hand_to_sync(partition_t *t) {
    pthread_mutex_lock(&t->lock);
    t->written = t->size;
    pthread_mutex_unlock(&t->lock);
    pthread_cond_signal(&t->appended);
}

static void answer_synced(void) {
    uint64_t count;
    if (read(wake_fd, &count, sizeof count) < 0) return;
    for (int i = 0; i < partition_count; i++) {
        partition_t *t = &partitions[i];
        pthread_mutex_lock(&t->lock);
        t->readable = t->synced;
        pthread_mutex_unlock(&t->lock);
        puts_t *q = &t->waiting;
        for (; q->count && q->items[q->first].end <= t->readable; q->first++, q->count--) reply_stored(&q->items[q->first]);
        if (!q->count) q->first = 0;
    }
}

/* One writev for each partition; in direct mode the round's puts are answered in the order they came. */
static void store_round(void) {
    if (!round_puts.count) return;
    for (size_t i = 0; sync_mode && i < round_puts.count; i++) push_put(&partitions[round_puts.items[i].partition].waiting, round_puts.items[i]);
    for (int i = 0; i < partition_count; i++) {
        partition_t *t = &partitions[i];
        if (!t->batch_count) continue;
        write_batch(t);
        t->spare_count = 0;
        if (sync_mode) hand_to_sync(t); else t->readable = t->size;
    }
    for (size_t i = 0; !sync_mode && i < round_puts.count; i++) reply_stored(&round_puts.items[i]);
    round_puts.first = round_puts.count = 0;
}

/* One send for each connection. What stayed unparsed behind a file range that is now out goes round once more. */
static void answer_round(void) {
    int again = 0;
    for (int i = 0; i < touched_count; i++) {
        conn_t *c = conns[touched_fds[i]];
        if (!c) continue;
        if (c->closing) { flush_out(c); drop(c); continue; }
        int had_file = c->file_left > 0;
        if (flush_out(c)) { drop(c); continue; }
        if (had_file && !c->file_left && c->in_at < c->in_len) { /* stays touched: parsed again below */
            touched_fds[again++] = c->fd;
            continue;
        }
        c->touched = 0;
    }
    touched_count = again;
}

static void end_round(void) {
    store_round();
    answer_round();
    while (touched_count) {
        for (int i = 0, n = touched_count; i < n; i++) {
            conn_t *c = conns[touched_fds[i]];
            if (c && parse(c)) c->closing = 1;
        }
        store_round();
        answer_round();
    }
}

/* ---- start ---- */

static void open_partitions(const char *directory) {
    partitions = calloc(partition_count, sizeof *partitions);
    for (int i = 0; i < partition_count; i++) {
        partition_t *t = &partitions[i];
        char path[PATH_MAX];
        struct stat st;
        snprintf(path, sizeof path, "%s/partition-%d", directory, i);
        t->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (t->fd < 0 || fstat(t->fd, &st)) die(path);
        t->size = t->readable = t->written = t->synced = st.st_size;
        t->spare_cap = 1024;
        t->spare = grown(NULL, t->spare_cap * sizeof *t->spare);
        pthread_mutex_init(&t->lock, NULL);
        pthread_cond_init(&t->appended, NULL);
        pthread_t thread;
        if (sync_mode && pthread_create(&thread, NULL, sync_thread, t)) die("cannot start a thread");
    }
}

static void listen_on(int port) {
    int one = 1;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(listen_fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (listen_fd < 0 || bind(listen_fd, (void *)&a, sizeof a) || listen(listen_fd, 1024)) die("cannot listen");
    struct epoll_event e = {.events = EPOLLIN, .data.fd = listen_fd};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listen_fd, &e);
    e.data.fd = wake_fd;
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, wake_fd, &e);
}

static void serve(void) {
    struct epoll_event events[EVENTS];
    for (;;) {
        int n = epoll_wait(epoll_fd, events, EVENTS, -1);
        if (n < 0 && errno != EINTR) die("epoll_wait");
        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            if (fd == listen_fd) { accept_all(); continue; }
            if (fd == wake_fd) { answer_synced(); continue; }
            conn_t *c = conns[fd];
            if (!c || c->closing) continue;
            if (events[i].events & EPOLLOUT) touch(c);
            if (c->file_left ? events[i].events & (EPOLLERR | EPOLLHUP) : events[i].events & ~EPOLLOUT)
                if (c->file_left || read_and_parse(c)) { c->closing = 1; touch(c); }
        }
        end_round();
    }
}

int main(int n, char **v) {
    int port = 8123, o;
    const char *directory = ".";
    while ((o = getopt(n, v, "p:d:P:m:")) != -1) switch (o) {
        case 'p': port = atoi(optarg); break;
        case 'd': directory = optarg; break;
        case 'P': partition_count = atoi(optarg); break;
        case 'm': sync_mode = !strcmp(optarg, "sync"); break;
        default: fprintf(stderr, "usage: floor -p PORT -d DIRECTORY -P PARTITIONS -m direct|sync\n"); return 2;
    }
    if (partition_count < 1) partition_count = 1;
    signal(SIGPIPE, SIG_IGN); /* sendfile has no MSG_NOSIGNAL */
    touched_fds = grown(NULL, MAX_DESCRIPTORS * sizeof *touched_fds);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    open_partitions(directory);
    listen_on(port);
    serve();
}
