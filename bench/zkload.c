/* Offset commits against a ZooKeeper server, real or embedded, at a fixed rate.
 *
 *   cc -O2 -o zkload zkload.c
 *   ./zkload HOST PORT SESSIONS WRITES_PER_SECOND SECONDS
 *
 * Opens SESSIONS sessions with one persistent znode each below /zkload, then writes
 * offset records (30 bytes) round robin, not waiting for answers but for a session with
 * 64 of them outstanding. Prints `ready` once all sessions are open, and in the end:
 *   sessions=... rate=... p50_us=... p99_us=... p999_us=... max_us=... errors=... late=...
 * `late` counts writes that could not be sent at their time.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define WINDOW 64
#define BUCKETS 2000000

struct session {
    int fd, sent, answered, have;
    int64_t at[WINDOW];
    unsigned char in[65536];
};

static uint32_t latency_us[BUCKETS];
static long errors, late, answers;

static int64_t now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

static void die(const char *what) {
    perror(what);
    exit(1);
}

static unsigned char *put32(unsigned char *p, int32_t v) {
    uint32_t be = htobe32((uint32_t)v);
    memcpy(p, &be, 4);
    return p + 4;
}

static unsigned char *put64(unsigned char *p, int64_t v) {
    uint64_t be = htobe64((uint64_t)v);
    memcpy(p, &be, 8);
    return p + 8;
}

static unsigned char *put_bytes(unsigned char *p, const char *s) {
    int n = (int)strlen(s);
    p = put32(p, n);
    memcpy(p, s, n);
    return p + n;
}

static int32_t get32(const unsigned char *p) {
    uint32_t be;
    memcpy(&be, p, 4);
    return (int32_t)be32toh(be);
}

static void send_all(int fd, const unsigned char *data, size_t n) {
    while (n) {
        ssize_t done = send(fd, data, n, MSG_NOSIGNAL);
        if (done < 0) die("send");
        data += done;
        n -= (size_t)done;
    }
}

static int recv_frame(int fd, unsigned char *out) {
    int need = 4, have = 0, length = -1;
    while (have < need) {
        ssize_t got = recv(fd, out + have, (size_t)(need - have), 0);
        if (got <= 0) die("the server has closed the connection");
        have += (int)got;
        if (length < 0 && have == 4) need = 4 + (length = get32(out));
    }
    return length;
}

static void open_session(struct session *s, const struct sockaddr_in *to) {
    unsigned char frame[256], answer[65536], *p = frame + 4;
    int one = 1;
    s->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (s->fd < 0 || connect(s->fd, (const struct sockaddr *)to, sizeof *to)) die("connect");
    setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    p = put32(p, 0);
    p = put64(p, 0);
    p = put32(p, 10000);
    p = put64(p, 0);
    p = put32(p, 16);
    memset(p, 0, 17);
    p += 17;
    put32(frame, (int32_t)(p - frame - 4));
    send_all(s->fd, frame, (size_t)(p - frame));
    recv_frame(s->fd, answer);
    if (get32(answer + 8) <= 0) die("no session");
}

static void create(struct session *s, const char *path) {
    unsigned char frame[512], answer[65536], *p = frame + 4;
    p = put32(p, -1000);
    p = put32(p, 1);
    p = put_bytes(p, path);
    p = put32(p, -1);
    p = put32(p, 1);
    p = put32(p, 31);
    p = put_bytes(p, "world");
    p = put_bytes(p, "anyone");
    p = put32(p, 0);
    put32(frame, (int32_t)(p - frame - 4));
    send_all(s->fd, frame, (size_t)(p - frame));
    recv_frame(s->fd, answer);
}

static void write_offset(struct session *s, int number, long offset, int64_t due) {
    char path[64], value[64];
    unsigned char frame[256], *p = frame + 4;
    snprintf(path, sizeof path, "/zkload/%d", number);
    snprintf(value, sizeof value, "-5468931049541074944-%09ld", offset);
    p = put32(p, s->sent + 1);
    p = put32(p, 5);
    p = put_bytes(p, path);
    p = put_bytes(p, value);
    p = put32(p, -1);
    put32(frame, (int32_t)(p - frame - 4));
    s->at[s->sent++ % WINDOW] = due;
    send_all(s->fd, frame, (size_t)(p - frame));
}

static void take_answers(struct session *s, int64_t now) {
    ssize_t got = recv(s->fd, s->in + s->have, sizeof s->in - (size_t)s->have, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) die("the server has closed the connection");
    s->have += (int)got;
    int at = 0;
    while (s->have - at >= 4 && s->have - at >= 4 + get32(s->in + at)) {
        if (get32(s->in + at + 16)) errors++;
        int64_t took = now - s->at[s->answered++ % WINDOW];
        latency_us[took < 0 ? 0 : took < BUCKETS ? took : BUCKETS - 1]++;
        answers++;
        at += 4 + get32(s->in + at);
    }
    memmove(s->in, s->in + at, (size_t)(s->have - at));
    s->have -= at;
}

static long quantile(double share) {
    long left = (long)(share * (double)answers);
    for (long us = 0; us < BUCKETS; us++)
        if ((left -= latency_us[us]) < 0) return us;
    return BUCKETS;
}

int main(int argc, char **argv) {
    if (argc != 6) {
        fprintf(stderr, "usage: zkload HOST PORT SESSIONS WRITES_PER_SECOND SECONDS\n");
        return 2;
    }
    struct rlimit files = {65536, 65536};
    setrlimit(RLIMIT_NOFILE, &files);
    int count = atoi(argv[3]);
    double rate = atof(argv[4]), seconds = atof(argv[5]);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[2]))};
    inet_pton(AF_INET, argv[1], &to.sin_addr);
    struct session *sessions = calloc((size_t)count, sizeof *sessions);
    int epoll = epoll_create1(0);
    for (int i = 0; i < count; i++) {
        char path[64];
        open_session(&sessions[i], &to);
        if (i == 0) create(&sessions[0], "/zkload");
        snprintf(path, sizeof path, "/zkload/%d", i);
        create(&sessions[i], path);
        struct epoll_event wish = {.events = EPOLLIN, .data.ptr = &sessions[i]};
        epoll_ctl(epoll, EPOLL_CTL_ADD, sessions[i].fd, &wish);
    }
    puts("ready");
    fflush(stdout);
    int64_t begin = now_us(), end = begin + (int64_t)(seconds * 1e6);
    long sent = 0;
    struct epoll_event ready[512];
    for (int64_t now = begin; now < end || answers < sent; now = now_us()) {
        if (now > end + 5000000) die("answers are missing");
        while (now < end && (double)sent * 1e6 / rate <= (double)(now - begin)) {
            int number = (int)(sent % count);
            struct session *s = &sessions[number];
            if (s->sent - s->answered >= WINDOW) {
                late++;
                break;
            }
            write_offset(s, number, sent, begin + (int64_t)((double)sent * 1e6 / rate));
            sent++;
        }
        int found = epoll_wait(epoll, ready, 512, 1);
        now = now_us();
        for (int i = 0; i < found; i++) take_answers(ready[i].data.ptr, now);
    }
    printf("sessions=%d rate=%.0f p50_us=%ld p99_us=%ld p999_us=%ld max_us=%ld errors=%ld late=%ld\n",
           count, (double)answers * 1e6 / (double)(now_us() - begin), quantile(0.5),
           quantile(0.99), quantile(0.999), quantile(0.999999), errors, late);
    return errors != 0;
}
