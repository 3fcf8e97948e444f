/* Uses memory in a way that peaks may miss or count twice: memory HOW MIB HOLD_MS

   alone     one process touches MIB and holds it
   children  four children at once, MIB each
   shared    four children at once, all touch the same shared mapping of MIB
   cache     reads a file of MIB that it writes first (page cache, hardly any memory of its own): needs a fourth
             argument, the file
   series    MIB in one process, thirty times one after the other
   grandchild  a grandchild touches MIB; its parent sees how it ended and says 0 whatever that was */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void *touch(size_t size, int flags) {
    char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        _exit(4);
    madvise(at, size, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < size; i += 4096)
        at[i] = 1;
    return at;
}

int main(int argc, char **argv) {
    if (argc < 4)
        return 2;
    const char *how = argv[1];
    size_t size = (size_t)atol(argv[2]) << 20;
    useconds_t hold = (useconds_t)atol(argv[3]) * 1000;
    if (!strcmp(how, "alone")) {
        touch(size, MAP_PRIVATE);
        usleep(hold);
    } else if (!strcmp(how, "children") || !strcmp(how, "shared")) {
        char *common = strcmp(how, "shared") ? NULL : touch(size, MAP_SHARED);
        for (int i = 0; i < 4; i++)
            if (fork() == 0) {
                if (common)
                    for (size_t at = 0; at < size; at += 4096)
                        common[at]++;
                else
                    touch(size, MAP_PRIVATE);
                usleep(hold);
                _exit(0);
            }
        while (wait(NULL) > 0)
            ;
    } else if (!strcmp(how, "series")) {
        for (int i = 0; i < 30; i++) {
            if (fork() == 0) {
                touch(size, MAP_PRIVATE);
                _exit(0);
            }
            wait(NULL);
        }
    } else if (!strcmp(how, "cache") && argc == 5) {
        static char block[1 << 20];
        int fd = open(argv[4], O_RDWR | O_CREAT | O_TRUNC, 0600);
        for (size_t at = 0; at < size; at += sizeof block)
            if (write(fd, block, sizeof block) != sizeof block)
                return 5;
        usleep(hold);
    } else if (!strcmp(how, "grandchild")) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            if (fork() == 0) {
                touch(size, MAP_PRIVATE);
                usleep(hold);
                _exit(0);
            }
            wait(&status);
            _exit(status != 0);
        }
        waitpid(child, &status, 0);
        return 0;
    } else {
        return 2;
    }
    return 0;
}
