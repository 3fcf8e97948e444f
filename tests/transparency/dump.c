/* Writes all that a program finds at its start to the file that its first argument names; prints nothing, exits 7. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

static char line[1 << 16];

static void hex(FILE *out, const char *name, const char *text) {
    fprintf(out, "%s ", name);
    for (; *text; text++)
        fprintf(out, "%02x", (unsigned char)*text);
    fprintf(out, "\n");
}

static void first_line(FILE *out, const char *name, const char *path) {
    FILE *file = fopen(path, "r");
    if (file && fgets(line, sizeof line, file))
        fprintf(out, "%s %s%s", name, line, strchr(line, '\n') ? "" : "\n");
    if (file)
        fclose(file);
}

static void link_of(FILE *out, const char *name, const char *path) {
    ssize_t size = readlink(path, line, sizeof line - 1);
    line[size < 0 ? 0 : size] = 0;
    hex(out, name, line);
}

int main(int argc, char **argv, char **envp) {
    struct {
        int flags, status;
        long offset;
        struct stat stat;
    } fds[64];
    for (int fd = 0; fd < 64; fd++) {
        fds[fd].flags = fcntl(fd, F_GETFD);
        fds[fd].status = fcntl(fd, F_GETFL);
        fds[fd].offset = lseek(fd, 0, SEEK_CUR);
        if (fstat(fd, &fds[fd].stat))
            memset(&fds[fd].stat, 0, sizeof fds[fd].stat);
    }
    FILE *out = fopen(argv[1], "w");
    if (!out)
        return 99;
    for (int i = 0; i < argc; i++)
        hex(out, "arg", argv[i]);
    for (char **e = envp; *e; e++)
        hex(out, "env", *e);
    for (int fd = 0; fd < 64; fd++)
        if (fds[fd].flags >= 0)
            fprintf(out, "fd %d flags %d status %o offset %ld dev %lx ino %lu\n", fd, fds[fd].flags, fds[fd].status,
                    fds[fd].offset, (long)fds[fd].stat.st_dev, (unsigned long)fds[fd].stat.st_ino);
    mode_t mask = umask(0);
    fprintf(out, "umask %o\n", mask);
    fprintf(out, "ids %d %d %d %d\n", getuid(), geteuid(), getgid(), getegid());
    gid_t groups[64];
    int count = getgroups(64, groups);
    for (int i = 0; i < count; i++)
        fprintf(out, "group %d\n", groups[i]);
    fprintf(out, "pgid %d\nsid %d\n", getpgid(0), getsid(0));
    struct sched_param priority;
    sched_getparam(0, &priority);
    fprintf(out, "nice %d sched %d %d ioprio %ld\n", getpriority(PRIO_PROCESS, 0), sched_getscheduler(0),
            priority.sched_priority, syscall(SYS_ioprio_get, 1, 0));
    cpu_set_t cpus;
    sched_getaffinity(0, sizeof cpus, &cpus);
    fprintf(out, "affinity");
    for (int cpu = 0; cpu < 256; cpu++)
        if (CPU_ISSET(cpu, &cpus))
            fprintf(out, " %d", cpu);
    fprintf(out, "\n");
    for (int i = 0; i < 16; i++) {
        struct rlimit limit;
        getrlimit(i, &limit);
        fprintf(out, "limit %d %lld %lld\n", i, (long long)limit.rlim_cur, (long long)limit.rlim_max);
    }
    for (int which = 0; which < 3; which++) {
        struct itimerval timer;
        getitimer(which, &timer);
        /* How much is left moves; whether it runs, and how often it will ring, does not. */
        fprintf(out, "timer %d %s every %ld.%06ld\n", which,
                timer.it_value.tv_sec || timer.it_value.tv_usec ? "runs" : "off", (long)timer.it_interval.tv_sec,
                (long)timer.it_interval.tv_usec);
    }
    fprintf(out, "personality %x timerslack %d dumpable %d securebits %d thp %d no_new_privs %d\n",
            personality(0xffffffff), prctl(PR_GET_TIMERSLACK), prctl(PR_GET_DUMPABLE), prctl(PR_GET_SECUREBITS),
            prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0), prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
    int death = 0, reaper = 0;
    prctl(PR_GET_PDEATHSIG, &death);
    prctl(PR_GET_CHILD_SUBREAPER, &reaper);
    fprintf(out, "subreaper %d\npdeathsig %d\n", reaper, death);
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if ((!strncmp(line, "Sig", 3) && strncmp(line, "SigQ", 4)) || !strncmp(line, "Shd", 3) ||
            !strncmp(line, "Cap", 3) || !strncmp(line, "NoNew", 5) || !strncmp(line, "Seccomp", 7) ||
            !strncmp(line, "Umask", 5) || !strncmp(line, "Mems_allowed_list", 17))
            fputs(line, out);
    first_line(out, "oom", "/proc/self/oom_score_adj");
    first_line(out, "coredump", "/proc/self/coredump_filter");
    first_line(out, "loginuid", "/proc/self/loginuid");
    const char *namespaces[] = {"cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts"};
    for (int i = 0; i < 8; i++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/self/ns/%s", namespaces[i]);
        link_of(out, namespaces[i], path);
    }
    link_of(out, "cwd", "/proc/self/cwd");
    link_of(out, "root", "/proc/self/root");
    return fclose(out) ? 98 : 7;
}
