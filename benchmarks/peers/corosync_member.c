/* One member of a Corosync closed process group that sends and counts: what benchmarks/live_peers.py compares with.
 *
 *   corosync_member MEMBERS INDEX SIZE SECONDS RATE
 *
 * It joins, waits until so many members have, sends as fast as the group takes it (or, when RATE is not 0, so many
 * messages a second), and prints one JSON object. Built with: cc -O2 corosync_member.c -lcpg
 */
#include <corosync/cpg.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define WARM_UP_SECONDS 1.0
#define SETTLE_SECONDS 1.0
#define JOIN_SECONDS 30.0
#define BURST_MESSAGES 64 /* sent between two looks at what has come */
#define LATENCIES_MAX 4000000

static size_t members, joined;
static uint64_t own_index, delivered;
static int with_latency;

struct latency {
    uint64_t origin;
    uint64_t nanoseconds;
};
static struct latency *latencies;
static size_t latency_count;

struct stamp {
    uint64_t nanoseconds;
    uint64_t origin;
};

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static double cpu_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
           + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void on_message(cpg_handle_t handle, const struct cpg_name *group, uint32_t node, uint32_t process, void *message,
                       size_t length) {
    (void)handle, (void)group, (void)node, (void)process;
    delivered++;
    if (with_latency && length >= sizeof(struct stamp) && latency_count < LATENCIES_MAX) {
        struct stamp stamp;
        memcpy(&stamp, message, sizeof stamp);
        latencies[latency_count].origin = stamp.origin;
        latencies[latency_count++].nanoseconds = now() - stamp.nanoseconds;
    }
}

static void on_members(cpg_handle_t handle, const struct cpg_name *group, const struct cpg_address *list, size_t count,
                       const struct cpg_address *left, size_t left_count, const struct cpg_address *new_list,
                       size_t new_count) {
    (void)handle, (void)group, (void)list, (void)left, (void)left_count, (void)new_list, (void)new_count;
    joined = count;
}

static void fail(const char *what, cs_error_t error) {
    fprintf(stderr, "%s: corosync error %d\n", what, (int)error);
    exit(1);
}

static cpg_handle_t handle;
static struct pollfd readable = {.events = POLLIN};

static void wait_and_dispatch(int milliseconds) {
    if (poll(&readable, 1, milliseconds) > 0) {
        cs_error_t error = cpg_dispatch(handle, CS_DISPATCH_ALL);
        if (error != CS_OK && error != CS_ERR_TRY_AGAIN)
            fail("cpg_dispatch", error);
    }
}

int main(int count, char **words) {
    if (count != 6) {
        fprintf(stderr, "usage: %s MEMBERS INDEX SIZE SECONDS RATE\n", words[0]);
        return 2;
    }
    members = strtoul(words[1], NULL, 10);
    own_index = strtoul(words[2], NULL, 10);
    size_t size = strtoul(words[3], NULL, 10);
    double seconds = strtod(words[4], NULL), rate = strtod(words[5], NULL);
    with_latency = rate > 0;
    latencies = with_latency ? calloc(LATENCIES_MAX, sizeof *latencies) : NULL;
    char *payload = malloc(size < sizeof(struct stamp) ? sizeof(struct stamp) : size);
    memset(payload, 'x', size);

    cpg_callbacks_t callbacks = {.cpg_deliver_fn = on_message, .cpg_confchg_fn = on_members};
    cs_error_t error = CS_ERR_TRY_AGAIN;
    for (uint64_t until = now() + (uint64_t)(JOIN_SECONDS * 1e9); error != CS_OK && now() < until; poll(NULL, 0, 100))
        error = cpg_initialize(&handle, &callbacks);
    if (error != CS_OK)
        fail("cpg_initialize", error);
    struct cpg_name group = {.length = 5, .value = "bench"};
    for (uint64_t until = now() + (uint64_t)(JOIN_SECONDS * 1e9); (error = cpg_join(handle, &group)) == CS_ERR_TRY_AGAIN;)
        if (now() > until || poll(NULL, 0, 100) < 0)
            break;
    if (error != CS_OK)
        fail("cpg_join", error);
    cpg_fd_get(handle, &readable.fd);
    for (uint64_t until = now() + (uint64_t)(JOIN_SECONDS * 1e9); joined < members;) {
        wait_and_dispatch(100);
        if (now() > until) {
            fprintf(stderr, "only %zu of %zu members joined\n", joined, members);
            return 1;
        }
    }

    struct iovec message = {.iov_base = payload, .iov_len = size};
    uint64_t start = now(), warm = start + (uint64_t)(WARM_UP_SECONDS * 1e9), end = warm + (uint64_t)(seconds * 1e9);
    uint64_t over = end + (uint64_t)(SETTLE_SECONDS * 1e9), sent = 0, began = 0, ended = 0, before = 0, after = 0;
    uint64_t interval = rate > 0 ? (uint64_t)(1e9 * (double)members / rate) : 0, due = start + interval * own_index / members;
    double used_before = 0, used_after = 0;
    for (uint64_t time; (time = now()) < over;) {
        if (!began && time >= warm)
            began = time, before = delivered, used_before = cpu_seconds();
        if (!ended && time >= end)
            ended = time, after = delivered, used_after = cpu_seconds();
        int wait = 1;
        if (time < end && interval) {
            if (time >= due) {
                struct stamp stamp = {now(), own_index};
                memcpy(payload, &stamp, sizeof stamp);
                if (cpg_mcast_joined(handle, CPG_TYPE_AGREED, &message, 1) == CS_OK)
                    sent++;
                due += interval;
            }
        } else if (time < end) {
            int burst = 0;
            while (burst < BURST_MESSAGES && cpg_mcast_joined(handle, CPG_TYPE_AGREED, &message, 1) == CS_OK)
                burst++;
            sent += (uint64_t)burst;
            wait = burst < BURST_MESSAGES ? 1 : 0;
        }
        wait_and_dispatch(wait);
    }
    if (!ended)
        ended = now(), after = delivered, used_after = cpu_seconds();
    double measured = (double)(ended - began) / 1e9;
    printf("{\"messages_per_second\": %.1f, \"sent\": %llu, \"delivered\": %llu, \"cores\": %.3f, \"nanoseconds\": [",
           (double)(after - before) / measured, (unsigned long long)sent, (unsigned long long)delivered,
           (used_after - used_before) / measured);
    for (size_t i = 0; i < latency_count; i++)
        printf("%s[%llu, %llu]", i ? ", " : "", (unsigned long long)latencies[i].origin,
               (unsigned long long)latencies[i].nanoseconds);
    printf("]}\n");
    return 0;
}
