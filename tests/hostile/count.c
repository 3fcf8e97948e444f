/* count loop N: N turns of a short loop. count fork N: the same, then a child that executes nothing. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile long sum;

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    for (long left = atol(argv[2]); left > 0; left--)
        sum += left;
    if (strcmp(argv[1], "fork") == 0) {
        if (fork() == 0)
            _exit(0);
        wait(NULL);
    }
    return 0;
}
