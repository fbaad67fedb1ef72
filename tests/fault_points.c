/* Counts the calls of the C library on files below a folder, and lets one of them go wrong.

   Loaded before the C library (LD_PRELOAD) by fault_points.py, which sets everything below. Calls of
   SQLite and NumPy pass through here as those of Python do. Nothing is forced to a disk. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FAIL = 1, STAY, SIGNAL, DIE };  /* once, from then on, a signal before the call, sudden death */
enum { READS = 1, WRITES, NAMES, CLOSES };
#define MOST 100000
#define OURS 4096

char fault_root[4096];
long fault_at, fault_seen;
int fault_way, fault_code, fault_on;
const char *fault_names[MOST];
static char ours[OURS];

static int below(const char *path) {
    size_t n = strlen(fault_root);
    return fault_on && path && n && !strncmp(path, fault_root, n);
}
static int held(int fd) { return fault_on && fd >= 0 && fd < OURS && ours[fd]; }
static int keep(int fd, int whether) {
    if (fd >= 0 && fd < OURS) ours[fd] = whether;
    return fd;
}
/* Count a call; true if it is the one to fail. */
static int hit(const char *name, int kind) {
    long here = fault_seen++;
    if (here < MOST) fault_names[here] = name;
    if (!fault_way || here < fault_at || (here > fault_at && fault_way != STAY)) return 0;
    if (fault_way == SIGNAL) return raise(fault_code), 0;
    if (fault_way == DIE) _exit(137);
    if (here > fault_at && fault_code == ENOSPC && (kind == READS || kind == CLOSES)) return 0;
    if (here > fault_at && fault_code == ENOSPC && strstr("unlinkat rmdir lock", name)) return 0;
    errno = fault_code;
    return 1;
}
#define REAL(name) static __typeof__(name) *real; if (!real) real = dlsym(RTLD_NEXT, #name)
#define CALL(type, name, kind, mine, parameters, ...)            \
    type name parameters {                                       \
        REAL(name);                                              \
        if ((mine) && hit(#name, kind)) return (type)-1;         \
        return real(__VA_ARGS__);                                \
    }
#define OPENED(name, mine, parameters, ...)                      \
    int name parameters {                                        \
        REAL(name);                                              \
        va_list rest;                                            \
        va_start(rest, flags);                                   \
        int mode = va_arg(rest, int), us = (mine);               \
        va_end(rest);                                            \
        if (us && hit("open", flags & O_CREAT ? NAMES : READS)) return -1; \
        return keep(real(__VA_ARGS__, mode), us);                \
    }
OPENED(open, below(path), (const char *path, int flags, ...), path, flags)
OPENED(open64, below(path), (const char *path, int flags, ...), path, flags)
OPENED(openat, below(path) || held(at), (int at, const char *path, int flags, ...), at, path, flags)
OPENED(openat64, below(path) || held(at), (int at, const char *path, int flags, ...), at, path, flags)

#define WRITTEN(name, parameters, ...)                           \
    ssize_t name parameters {                                    \
        REAL(name);                                              \
        if (held(fd) && hit("write", WRITES)) {                  \
            int code = errno;                                    \
            n /= 2;  /* a disk that fills up took the first half */ \
            if (code == ENOSPC && real(__VA_ARGS__) < 0) {}      \
            errno = code;                                        \
            return -1;                                           \
        }                                                        \
        return real(__VA_ARGS__);                                \
    }
WRITTEN(write, (int fd, const void *from, size_t n), fd, from, n)
WRITTEN(pwrite, (int fd, const void *from, size_t n, off_t to), fd, from, n, to)
WRITTEN(pwrite64, (int fd, const void *from, size_t n, off64_t to), fd, from, n, to)
CALL(ssize_t, read, READS, held(fd), (int fd, void *to, size_t n), fd, to, n)
CALL(ssize_t, pread64, READS, held(fd), (int fd, void *to, size_t n, off64_t from), fd, to, n, from)
CALL(int, ftruncate64, WRITES, held(fd), (int fd, off64_t n), fd, n)
CALL(int, fstat64, READS, held(fd), (int fd, struct stat64 *to), fd, to)
CALL(int, stat64, READS, below(path), (const char *path, struct stat64 *to), path, to)
CALL(int, lstat64, READS, below(path), (const char *path, struct stat64 *to), path, to)
CALL(int, fstatat64, READS, below(path) || held(at),
     (int at, const char *path, struct stat64 *to, int flags), at, path, to, flags)
CALL(int, access, READS, below(path), (const char *path, int mode), path, mode)
CALL(int, mkdir, NAMES, below(path), (const char *path, mode_t mode), path, mode)
CALL(int, chmod, NAMES, below(path), (const char *path, mode_t mode), path, mode)
CALL(int, rmdir, NAMES, below(path), (const char *path), path)
CALL(int, unlink, NAMES, below(path), (const char *path), path)
CALL(int, unlinkat, NAMES, below(path) || held(at), (int at, const char *path, int flags), at, path, flags)
CALL(int, rename, NAMES, below(to), (const char *from, const char *to), from, to)
CALL(int, renameat2, NAMES, below(to),
     (int a, const char *from, int b, const char *to, unsigned flags), a, from, b, to, flags)

int fsync(int fd) {
    REAL(fsync);
    return held(fd) ? -hit("fsync", WRITES) : real(fd);
}
int fdatasync(int fd) {
    REAL(fdatasync);
    return held(fd) ? -hit("fsync", WRITES) : real(fd);
}
int close(int fd) {  /* a descriptor is gone even where this fails */
    REAL(close);
    int failed = held(fd) && hit("close", CLOSES), code = errno, done = real(keep(fd, 0));
    if (failed) errno = code;
    return failed ? -1 : done;
}
int fcntl64(int fd, int what, ...) {
    REAL(fcntl64);
    va_list rest;
    va_start(rest, what);
    void *value = va_arg(rest, void *);
    va_end(rest);
    if (held(fd) && (what == F_SETLK || what == F_SETLKW) && hit("lock", NAMES)) return -1;
    int done = real(fd, what, value);
    return what == F_DUPFD_CLOEXEC && done >= 0 ? keep(done, held(fd)) : done;
}
DIR *opendir(const char *path) {
    REAL(opendir);
    return below(path) && hit("opendir", READS) ? NULL : real(path);
}
DIR *fdopendir(int fd) {
    REAL(fdopendir);
    return held(fd) && hit("opendir", READS) ? NULL : real(fd);
}
size_t fwrite(const void *from, size_t size, size_t n, FILE *file) {
    REAL(fwrite);
    return held(fileno(file)) && hit("fwrite", WRITES) ? 0 : real(from, size, n, file);
}
int fclose(FILE *file) {  /* what it still holds is lost where this fails */
    REAL(fclose);
    int us = held(fileno(file)), failed = us && hit("fclose", WRITES), code = errno;
    if (failed) __fpurge(file);
    keep(fileno(file), 0);
    int done = real(file);
    if (failed) errno = code;
    return failed ? EOF : done;
}
