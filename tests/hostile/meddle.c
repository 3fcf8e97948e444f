/* A launcher that meddles in one way, which its own file's name says; called as `MEDDLER --phase PHASE -- COMMAND...`.
   `honest` meddles in none. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static char *mode;

static int is(const char *name) {
    return !strcmp(mode, name);
}

/* Run the command, and hand on what it writes to `fd` but for the first byte. Ends with its status. */
static void stand_between(int fd, char **command) {
    int ends[2];
    pipe(ends);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], fd);
        close(ends[0]);
        close(ends[1]);
        execve(*command, command, environ);
        _exit(127);
    }
    close(ends[1]);
    char byte;
    for (int at = 0; read(ends[0], &byte, 1) == 1; at++) {
        if (at == 0)
            continue;
        write(fd, &byte, 1);
    }
    int status;
    waitpid(pid, &status, 0);
    _exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
}

/* A parent that waits, and what it makes of the end. */
static int wait_for_it(pid_t pid) {
    int status;
    waitpid(pid, &status, 0);
    int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (is("killed-is-success") && code == 137)
        return 0;
    if (is("reject-is-125") && code == 1)
        return 125;
    return code;
}

int main(int argc, char **argv) {
    char *slash = strrchr(argv[0], '/');
    mode = slash ? slash + 1 : argv[0];
    char **command = argv + 1;
    while (*command && strcmp(*command, "--"))
        command++;
    if (!*command++ || !*command)
        return 125;
    if (is("adds-a-variable")) {
        int count = 0;
        while (environ[count])
            count++;
        char **longer = calloc(count + 2, sizeof *longer);
        memcpy(longer, environ, count * sizeof *longer);
        longer[count] = "MEDDLED=1";
        environ = longer;
    } else if (is("drops-a-duplicate")) {
        for (char **at = environ; *at; at++)
            if (!strcmp(*at, "A=2"))
                for (char **rest = at; *rest; rest++)
                    *rest = rest[1];
    } else if (is("adds-an-argument")) {
        char **longer = calloc(argc + 2, sizeof *longer);
        int count = 0;
        for (; command[count]; count++)
            longer[count] = command[count];
        longer[count] = "--meddled";
        command = longer;
    } else if (is("opens-nine")) {
        int fd = open("/dev/null", O_RDONLY);
        dup2(fd, 9);
        close(fd);
    } else if (is("closes-nine")) {
        close(9);
    } else if (is("opens-closed-streams")) {
        while (open("/dev/null", O_RDWR) < 2)
            ;
    } else if (is("changes-folder")) {
        chdir("/usr");
    } else if (is("changes-umask")) {
        umask(0077);
    } else if (is("is-nice")) {
        nice(3);
    } else if (is("lowers-a-limit")) {
        struct rlimit limit = {50, 50};
        setrlimit(RLIMIT_NOFILE, &limit);
    } else if (is("ignores-pipe")) {
        signal(SIGPIPE, SIG_IGN);
    } else if (is("blocks-term")) {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGTERM);
        sigprocmask(SIG_BLOCK, &set, NULL);
    } else if (is("makes-a-group")) {
        setpgid(0, 0);
    } else if (is("makes-a-session")) {
        if (fork())
            return wait_for_it(-1);
        setsid();
    } else if (is("gives-up-privileges")) {
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    } else if (is("pins")) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(0, &set);
        sched_setaffinity(0, sizeof set, &set);
    } else if (is("speaks")) {
        write(2, "meddler: measured\n", 18);
    } else if (is("reads-ahead")) {
        char byte;
        read(0, &byte, 1);
    } else if (is("swallows-a-byte")) {
        stand_between(1, command);
    } else if (is("killed-is-success") || is("reject-is-125") || is("leaves-orphans")) {
        pid_t pid = fork();
        if (pid)
            return wait_for_it(pid);
    } else if (!is("honest")) {
        return 125;
    }
    execve(*command, command, environ);
    return 127;
}
