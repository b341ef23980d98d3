/* Faults at the nth thing that a process asks of the disk below one folder: built by the tests, loaded by LD_PRELOAD.
 *
 * fault_arm(root, at, kind) counts from 1 on; nothing happens before it is called. Kinds: 0 count only, 1 kill before
 * the call, 2 no space from here on, 3 one input/output error, 4 one short write, 5 half a write and then kill.
 * fault_trace(root, fd) writes down every call with its data instead, for the model of a power cut.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static char root[PATH_MAX];
static size_t root_length;
static long at, count;
static int kind, trace = -1;

void fault_arm(const char *folder, long nth, int what) {
    snprintf(root, sizeof root, "%s", folder);
    root_length = strlen(root);
    at = nth, kind = what, count = 0, trace = -1;
}
void fault_trace(const char *folder, int fd) { fault_arm(folder, 0, 0); trace = fd; }
long fault_count(void) { return count; }

#define REAL(name) static __typeof__(&name) real_##name; if (!real_##name) real_##name = dlsym(RTLD_NEXT, #name)

static int inside(const char *path) {
    return root_length && !strncmp(path, root, root_length) && (path[root_length] == '/' || !path[root_length]);
}

static int of_fd(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = root_length ? readlink(link, path, PATH_MAX - 1) : -1;
    if (length < 0) return 0;
    path[length] = 0;
    return inside(path);
}

static int of_name(int folder, const char *name, char *path) {
    if (!root_length) return 0;
    if (name[0] == '/') { snprintf(path, PATH_MAX, "%s", name); return inside(path); }
    char above[PATH_MAX];
    if (folder == AT_FDCWD) { if (!getcwd(above, sizeof above)) return 0; }
    else {
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        ssize_t length = readlink(link, above, sizeof above - 1);
        if (length < 0) return 0;
        above[length] = 0;
    }
    if (strlen(above) + strlen(name) + 2 > PATH_MAX) return 0;
    strcpy(path, above); strcat(path, "/"); strcat(path, name);
    return inside(path);
}

static void put(const void *data, size_t size) {
    while (size) {
        ssize_t done = syscall(SYS_write, trace, data, size);
        if (done <= 0) _exit(99);
        data = (const char *)data + done, size -= done;
    }
}

static void note(char what, const char *path, const char *other, long offset, const void *data, size_t size) {
    if (trace < 0) return;
    char head[2 * PATH_MAX + 64];
    int length = snprintf(head, sizeof head, "%c\t%s\t%s\t%ld\t%zu\n", what, path, other, offset, size);
    put(head, length);
    put(data, size);
}

/* 0: go on; 1: only half of it (a write); -1: refused, errno is set. */
static int due(int is_write) {
    ++count;
    if (!kind || trace >= 0 || count < at) return 0;
    if (kind == 2) {
        if (count == at || is_write) { errno = ENOSPC; return -1; }
        return 0;
    }
    if (count != at) return 0;
    if (kind == 1) raise(SIGKILL);
    if (kind == 3) { errno = EIO; return -1; }
    if (kind == 5 && !is_write) raise(SIGKILL);
    return is_write ? 1 : 0;
}

static ssize_t half(ssize_t done) { if (kind == 5) raise(SIGKILL); return done; }

ssize_t write(int fd, const void *data, size_t size) {
    REAL(write);
    char path[PATH_MAX];
    if (fd == trace || !of_fd(fd, path)) return real_write(fd, data, size);
    int what = due(1);
    if (what < 0) return -1;
    if (what && size > 1) return half(real_write(fd, data, size / 2));
    long offset = trace < 0 ? 0 : (fcntl(fd, F_GETFL) & O_APPEND) ? lseek(fd, 0, SEEK_END) : lseek(fd, 0, SEEK_CUR);
    ssize_t done = real_write(fd, data, size);
    if (done > 0) note('w', path, "", offset, data, done);
    return done;
}

#define PWRITE(name, off) \
    ssize_t name(int fd, const void *data, size_t size, off offset) { \
        REAL(name); \
        char path[PATH_MAX]; \
        if (!of_fd(fd, path)) return real_##name(fd, data, size, offset); \
        int what = due(1); \
        if (what < 0) return -1; \
        if (what && size > 1) return half(real_##name(fd, data, size / 2, offset)); \
        ssize_t done = real_##name(fd, data, size, offset); \
        if (done > 0) note('w', path, "", offset, data, done); \
        return done; \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

ssize_t writev(int fd, const struct iovec *parts, int n) {
    char path[PATH_MAX];
    REAL(writev);
    if (!of_fd(fd, path)) return real_writev(fd, parts, n);
    return n ? write(fd, parts[0].iov_base, parts[0].iov_len) : 0; /* short, as it may be */
}

/* With the content: a file that was made or filled by calls that are not seen here (raw ones, a mapping) is known too. */
static void synced(int fd, const char *path) {
    char link[64], *data = 0;
    struct stat now;
    ssize_t size = 0, more;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (fstat(fd, &now)) return;
    if (S_ISREG(now.st_mode)) {
        int file = syscall(SYS_openat, AT_FDCWD, link, O_RDONLY, 0);
        data = malloc(now.st_size + 1);
        while (file >= 0 && data && (more = pread(file, data + size, now.st_size - size, size)) > 0) size += more;
        if (file >= 0) close(file);
    }
    note('s', path, S_ISDIR(now.st_mode) ? "folder" : "", 0, data ? data : "", size);
    free(data);
}

#define SYNC(name) \
    int name(int fd) { \
        REAL(name); \
        char path[PATH_MAX]; \
        if (!of_fd(fd, path)) return real_##name(fd); \
        if (due(0) < 0) return -1; \
        int done = real_##name(fd); \
        if (!done && trace >= 0) synced(fd, path); \
        return done; \
    }
SYNC(fsync)
SYNC(fdatasync)

#define TRUNCATE(name, off) \
    int name(int fd, off length) { \
        REAL(name); \
        char path[PATH_MAX]; \
        if (!of_fd(fd, path)) return real_##name(fd, length); \
        if (due(0) < 0) return -1; \
        int done = real_##name(fd, length); \
        if (!done) note('t', path, "", length, "", 0); \
        return done; \
    }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

static int moved(int from, const char *old, int to, const char *new, int (*go)(int, const char *, int, const char *)) {
    char a[PATH_MAX], b[PATH_MAX];
    int here = of_name(from, old, a), there = of_name(to, new, b);
    if (!here && !there) return go(from, old, to, new);
    if (due(0) < 0) return -1;
    int done = go(from, old, to, new);
    if (!done) note('r', a, b, 0, "", 0);
    return done;
}
static int go_renameat(int from, const char *old, int to, const char *new) {
    return syscall(SYS_renameat2, from, old, to, new, 0);
}
int rename(const char *old, const char *new) { return moved(AT_FDCWD, old, AT_FDCWD, new, go_renameat); }
int renameat(int from, const char *old, int to, const char *new) { return moved(from, old, to, new, go_renameat); }

static int removed(int folder, const char *name, int flags) {
    char path[PATH_MAX];
    if (!of_name(folder, name, path)) return syscall(SYS_unlinkat, folder, name, flags);
    if (due(0) < 0) return -1;
    int done = syscall(SYS_unlinkat, folder, name, flags);
    if (!done) note(flags & AT_REMOVEDIR ? 'd' : 'u', path, "", 0, "", 0);
    return done;
}
int unlink(const char *name) { return removed(AT_FDCWD, name, 0); }
int unlinkat(int folder, const char *name, int flags) { return removed(folder, name, flags); }
int rmdir(const char *name) { return removed(AT_FDCWD, name, AT_REMOVEDIR); }

int mkdir(const char *name, mode_t mode) {
    char path[PATH_MAX];
    if (!of_name(AT_FDCWD, name, path)) return syscall(SYS_mkdirat, AT_FDCWD, name, mode);
    if (due(0) < 0) return -1;
    int done = syscall(SYS_mkdirat, AT_FDCWD, name, mode);
    if (!done) note('m', path, "", 0, "", 0);
    return done;
}

static int opened(int folder, const char *name, int flags, mode_t mode) {
    char path[PATH_MAX];
    if (!(flags & (O_CREAT | O_TRUNC)) || !of_name(folder, name, path))
        return syscall(SYS_openat, folder, name, flags | O_LARGEFILE, mode);
    struct stat now;
    int is_new = syscall(SYS_newfstatat, folder, name, &now, 0) != 0;
    if ((is_new || flags & O_TRUNC) && due(0) < 0) return -1;
    int fd = syscall(SYS_openat, folder, name, flags | O_LARGEFILE, mode);
    if (fd >= 0 && is_new) note('c', path, "", 0, "", 0);
    else if (fd >= 0 && flags & O_TRUNC) note('t', path, "", 0, "", 0);
    return fd;
}
#define MODE mode_t mode = 0; if (flags & (O_CREAT | O_TMPFILE)) { va_list more; va_start(more, flags); mode = va_arg(more, mode_t); va_end(more); }
int open(const char *name, int flags, ...) { MODE return opened(AT_FDCWD, name, flags, mode); }
int open64(const char *name, int flags, ...) { MODE return opened(AT_FDCWD, name, flags, mode); }
int openat(int folder, const char *name, int flags, ...) { MODE return opened(folder, name, flags, mode); }
int openat64(int folder, const char *name, int flags, ...) { MODE return opened(folder, name, flags, mode); }
