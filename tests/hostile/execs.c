/* Execs, and what looks like one: execs HOW NAME COMMAND [ARGUMENT...]

   rename   takes NAME by prctl, which is no exec, and ends with 1; COMMAND is never run
   thread   execs COMMAND from a second thread, as programs in Go do
   many     runs NAME (a number) processes of COMMAND, one after the other, and ends with 1 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static char **command;

static void *become(void *unused) {
    (void)unused;
    execvp(command[0], command);
    _exit(127);
}

int main(int argc, char **argv) {
    if (argc < 4)
        return 2;
    command = argv + 3;
    if (!strcmp(argv[1], "rename")) {
        prctl(PR_SET_NAME, argv[2], 0, 0, 0);
        return 1;
    }
    if (!strcmp(argv[1], "thread")) {
        pthread_t thread;
        pthread_create(&thread, NULL, become, NULL);
        pthread_join(thread, NULL);
    }
    if (!strcmp(argv[1], "many")) {
        for (int i = atoi(argv[2]); i > 0; i--) {
            if (fork() == 0)
                become(NULL);
            wait(NULL);
        }
        return 1;
    }
    return 3;
}
