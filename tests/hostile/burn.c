/* Burns a known amount of CPU time in a way that accounting may miss: burn HOW SECONDS

   self      in this process
   waited    in a child that is waited for
   unwaited  in a child that is never waited for (its end is seen through a pipe)
   ignored   the same with SIGCHLD ignored, so that there is nothing to wait for
   daemon    in a grandchild in a session of its own, its parent gone; this process sleeps until it has ended
   outlive   the same, and this process ends at once
   threads   in four threads, a quarter each */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double seconds;

static double used(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void burn(clockid_t clock, double wanted) {
    double start = used(clock);
    while (used(clock) - start < wanted)
        for (volatile int i = 0; i < 20000; i++)
            ;
}

static void *burn_quarter(void *unused) {
    (void)unused;
    burn(CLOCK_THREAD_CPUTIME_ID, seconds / 4);
    return NULL;
}

/* The write end closes when the burner ends; nobody has to wait(2) for it. */
static void until_closed(int fd) {
    char byte;
    while (read(fd, &byte, 1) > 0)
        ;
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    const char *how = argv[1];
    seconds = atof(argv[2]);
    int ends[2];
    if (pipe(ends) != 0)
        return 3;
    if (!strcmp(how, "self")) {
        burn(CLOCK_PROCESS_CPUTIME_ID, seconds);
    } else if (!strcmp(how, "threads")) {
        pthread_t threads[4];
        for (int i = 0; i < 4; i++)
            pthread_create(&threads[i], NULL, burn_quarter, NULL);
        for (int i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
    } else if (!strcmp(how, "waited")) {
        pid_t child = fork();
        if (child == 0) {
            burn(CLOCK_PROCESS_CPUTIME_ID, seconds);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    } else if (!strcmp(how, "unwaited") || !strcmp(how, "ignored")) {
        if (!strcmp(how, "ignored"))
            signal(SIGCHLD, SIG_IGN);
        if (fork() == 0) {
            close(ends[0]);
            burn(CLOCK_PROCESS_CPUTIME_ID, seconds);
            _exit(0);
        }
        close(ends[1]);
        until_closed(ends[0]);
    } else if (!strcmp(how, "daemon") || !strcmp(how, "outlive")) {
        pid_t child = fork();
        if (child == 0) {
            setsid();
            if (fork() == 0) {
                close(ends[0]);
                burn(CLOCK_PROCESS_CPUTIME_ID, seconds);
                _exit(0);
            }
            _exit(0);
        }
        waitpid(child, NULL, 0);
        close(ends[1]);
        if (!strcmp(how, "daemon"))
            until_closed(ends[0]);
    } else {
        return 2;
    }
    return 0;
}
