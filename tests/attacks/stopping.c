/* Preloaded: counts what a program does to files below a folder, and at the chosen moment ends it or fills the disk.

   STOP_BELOW   the folder
   STOP_COUNT   a file of eight bytes, shared by all processes: how many calls there were
   STOP_AT      the number of the call (none: only count)
   STOP_HOW     before, half, after: SIGKILL there, in the middle of a write where it is one;
                full: from there on nothing can be written (ENOSPC)
   STOP_WHOM    self, or group: the whole process group

   Read anew at every call: a process that was forked may be given others. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(name) ({ static __typeof__(&name) real; if (!real) real = dlsym(RTLD_NEXT, #name); real; })

static int below(const char *path) {
    const char *folder = getenv("STOP_BELOW");
    size_t n = folder ? strlen(folder) : 0;
    return n && path && !strncmp(path, folder, n) && (path[n] == '/' || path[n] == 0);
}

static int opened_below(int file) {
    char link[64], path[4096];
    if (!getenv("STOP_BELOW")) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0) return 0;
    path[n] = 0;
    return below(path);
}

static long counted(void) {
    const char *path = getenv("STOP_COUNT");
    int file = path ? REAL(open)(path, O_RDWR) : -1;
    if (file < 0) return 0;
    long *shared = mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (shared == MAP_FAILED) return 0;
    long count = __atomic_add_fetch(shared, 1, __ATOMIC_SEQ_CST);
    munmap(shared, 8);
    return count;
}

enum moment { NOT_NOW, BEFORE, HALF, AFTER, FULL };

static enum moment now(void) {
    const char *at = getenv("STOP_AT"), *how = getenv("STOP_HOW");
    long count = counted();
    if (!at || !how) return NOT_NOW;
    if (*how == 'f') return count >= atol(at) ? FULL : NOT_NOW;
    if (count != atol(at)) return NOT_NOW;
    return *how == 'b' ? BEFORE : *how == 'h' ? HALF : AFTER;
}

static void end(void) {
    const char *whom = getenv("STOP_WHOM");
    kill(whom && *whom == 'g' ? 0 : getpid(), SIGKILL);
    for (;;) pause();
}

/* what takes room fails on a full disk; names can still go */
#define WATCHED(concerned, takes_room, failed, half, call) \
    if (!(concerned)) return call; \
    enum moment moment = now(); \
    if (moment == FULL && (takes_room)) { errno = ENOSPC; return failed; } \
    if (moment == HALF) { half; end(); } \
    if (moment == BEFORE) end(); \
    __auto_type result = call; \
    if (moment == AFTER) end(); \
    return result;

ssize_t write(int file, const void *data, size_t n) {
    WATCHED(opened_below(file), 1, -1, (void)!REAL(write)(file, data, n / 2), REAL(write)(file, data, n))
}
ssize_t pwrite64(int file, const void *data, size_t n, off64_t at) {
    WATCHED(opened_below(file), 1, -1, (void)!REAL(pwrite64)(file, data, n / 2, at), REAL(pwrite64)(file, data, n, at))
}
ssize_t writev(int file, const struct iovec *parts, int n) {
    WATCHED(opened_below(file), 1, -1, (void)!REAL(writev)(file, parts, n / 2), REAL(writev)(file, parts, n))
}
int fsync(int file) { WATCHED(opened_below(file), 1, -1, , REAL(fsync)(file)) }
int ftruncate64(int file, off64_t n) { WATCHED(opened_below(file), 0, -1, , REAL(ftruncate64)(file, n)) }
int rename(const char *old, const char *new) { WATCHED(below(new), 0, -1, , REAL(rename)(old, new)) }
int unlink(const char *path) { WATCHED(below(path), 0, -1, , REAL(unlink)(path)) }
int unlinkat(int folder, const char *path, int flags) {
    WATCHED(*path == '/' ? below(path) : opened_below(folder), 0, -1, , REAL(unlinkat)(folder, path, flags))
}
int rmdir(const char *path) { WATCHED(below(path), 0, -1, , REAL(rmdir)(path)) }
int mkdir(const char *path, mode_t mode) { WATCHED(below(path), 1, -1, , REAL(mkdir)(path, mode)) }

#define OPENING(name) \
    int name(const char *path, int flags, ...) { \
        va_list more; \
        va_start(more, flags); \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
        va_end(more); \
        int makes = (flags & (O_CREAT | O_TRUNC)) != 0; \
        WATCHED(makes && below(path), flags & O_CREAT, -1, , REAL(name)(path, flags, mode)) \
    }
OPENING(open)
OPENING(open64)
