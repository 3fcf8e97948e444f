/* Leaves its cgroup without a file that Landlock would see: leave DIRECTORY SECONDS HOW
   A child is born in the cgroup DIRECTORY by clone3 and burns SECONDS of CPU time; this process waits for it (HOW
   `waited`) or ends at once with 7 (HOW `left`; the child has a session of its own). Ends with 6 when it cannot. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc != 4)
        return 2;
    int fd = open(argv[1], O_RDONLY | O_DIRECTORY);
    struct clone_args arguments = {.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = fd};
    double seconds = atof(argv[2]);
    pid_t pid = syscall(SYS_clone3, &arguments, sizeof arguments);
    if (pid < 0)
        return 6;
    if (pid == 0) {
        setsid();
        int null = open("/dev/null", O_RDWR);
        for (int stream = 0; stream < 3; stream++)
            dup2(null, stream);
        struct timespec used;
        do
            clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
        while (used.tv_sec + used.tv_nsec * 1e-9 < seconds);
        _exit(0);
    }
    if (!strcmp(argv[3], "waited"))
        waitpid(pid, NULL, 0);
    return 7;
}
