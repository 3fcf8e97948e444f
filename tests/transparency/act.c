/* Does one thing in the way that a plain C program does it: act WHAT ARGUMENT...

   exit CODE          ends with it
   die SIGNAL         sends it to itself, without a core; ends with 3 where that does not end it
   ring               waits for a signal that ends it; gives up with 4 after 20 s
   stream BYTES       writes that many bytes to stdout: blocks of 1 MiB, each beginning with its number
   note FILE COUNT SIGNAL...
                      writes each of these signals' number to FILE as it arrives; ends with 5 after COUNT of them
   let-go FILE        closes stdin, stdout and stderr, and ends with 6 once FILE exists; gives up with 4 after 20 s */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static int notes;
static volatile int left;

static void note(int number) {
    char text[16];
    int length = snprintf(text, sizeof text, "%d\n", number);
    if (write(notes, text, length) != length)
        _exit(9);
    left--;
}

static int stream(unsigned long long bytes) {
    static char block[1 << 20];
    for (unsigned long at = 0; at < sizeof block; at++)
        block[at] = (char)(at * 2654435761u >> 13);
    for (unsigned long long number = 0; bytes > 0; number++) {
        size_t size = bytes < sizeof block ? bytes : sizeof block;
        memcpy(block, &number, sizeof number);
        for (size_t done = 0; done < size;) {
            ssize_t more = write(1, block + done, size - done);
            if (more < 0)
                return 9;
            done += more;
        }
        bytes -= size;
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 2)
        return 2;
    if (!strcmp(argv[1], "exit") && argc == 3)
        return atoi(argv[2]);
    if (!strcmp(argv[1], "die") && argc == 3) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        syscall(SYS_kill, getpid(), atoi(argv[2]));
        return 3;
    }
    if (!strcmp(argv[1], "ring")) {
        for (int i = 0; i < 2000; i++)
            usleep(10000);
        return 4;
    }
    if (!strcmp(argv[1], "stream") && argc == 3)
        return stream(strtoull(argv[2], NULL, 10));
    if (!strcmp(argv[1], "let-go") && argc == 3) {
        for (int fd = 0; fd < 3; fd++)
            close(fd);
        for (int i = 0; i < 2000; i++) {
            if (!access(argv[2], F_OK))
                return 6;
            usleep(10000);
        }
        return 4;
    }
    if (!strcmp(argv[1], "note") && argc > 4) {
        notes = open(argv[2], O_WRONLY | O_CREAT | O_APPEND, 0600);
        left = atoi(argv[3]);
        sigset_t all, before;
        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, &before);
        for (int i = 4; i < argc; i++) {
            struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART};
            if (sigaction(atoi(argv[i]), &action, NULL))
                return 8;
        }
        sigprocmask(SIG_SETMASK, &before, NULL);
        if (write(notes, "ready\n", 6) != 6)
            return 9;
        for (int i = 0; i < 3000 && left > 0; i++)
            usleep(10000);
        return left > 0 ? 4 : 5;
    }
    return 2;
}
