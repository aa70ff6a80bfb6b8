/* Counts the file system calls below one directory and makes the n-th of them fail.
 *
 * Loaded by LD_PRELOAD. cp_fault_arm() starts a count, cp_fault_disarm() ends it; between them each
 * call whose path or descriptor lies below the root gets the next number and a line in the log:
 * "number class name path". SQLite and Python reach libc through the same symbols, so both are seen.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

/* Classes of calls, by what may go wrong with them. */
enum { READ = 'r', WRITE = 'w', MAKE = 'm', CHANGE = 'c', SYNC = 's', LOCK = 'l', CLOSE = 'x' };

/* Faults; the names in injector.py follow this order. */
enum {
    COUNT, KILL_BEFORE, KILL_AFTER, EIO_ONCE, ENOSPC_ONCE, SHORT, SHORT_THEN_ENOSPC,
    EIO_FROM, ENOSPC_FROM, SYNC_EIO_FROM
};
enum { GO_ON = 0, DIE_AFTER = -1, HALF = -2 };

static char root[4096];
static size_t root_length;
static atomic_int armed, seen, fired;
static int target, fault, log_fd;
static int half_written_fd = -1;

__attribute__((visibility("default"))) void cp_fault_arm(const char *below, int number, int kind, int log)
{
    snprintf(root, sizeof root, "%s", below);
    root_length = strlen(root);
    target = number, fault = kind, log_fd = log, half_written_fd = -1;
    atomic_store(&seen, 0);
    atomic_store(&fired, 0);
    atomic_store(&armed, 1);
}

__attribute__((visibility("default"))) int cp_fault_disarm(void)
{
    atomic_store(&armed, 0);
    return atomic_load(&fired);
}

static int below_root(const char *path)
{
    return strncmp(path, root, root_length) == 0 && (path[root_length] == '/' || path[root_length] == 0);
}

/* Where a descriptor (or the working directory) points, by raw system calls so that nothing is counted twice. */
static int place_of(int fd, char *out, size_t size)
{
    char link[64];
    if (fd == AT_FDCWD)
        snprintf(link, sizeof link, "/proc/self/cwd");
    else
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    long n = syscall(SYS_readlinkat, AT_FDCWD, link, out, size - 1);
    out[n > 0 ? n : 0] = 0;
    return n > 0;
}

static int concerns(int fd, const char *path, char *out, size_t size)
{
    if (path && path[0] == '/') {
        snprintf(out, size, "%s", path);
        return below_root(out);
    }
    if (!place_of(fd, out, size) || !below_root(out))
        return 0;
    if (path) {
        size_t used = strlen(out);
        snprintf(out + used, size - used, "/%s", path);
    }
    return 1;
}

static void die(void)
{
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;)
        pause();
}

static int grows(int class) { return class == WRITE || class == MAKE; }

static int changes(int class) { return grows(class) || class == CHANGE || class == SYNC; }

static int verdict(int number, int class, int fd)
{
    switch (fault) {
    case EIO_FROM: return number >= target && changes(class) ? EIO : GO_ON;
    case ENOSPC_FROM: return number >= target && grows(class) ? ENOSPC : GO_ON;
    case SYNC_EIO_FROM: return number >= target && class == SYNC ? EIO : GO_ON;
    case SHORT_THEN_ENOSPC:
        if (half_written_fd >= 0 && fd == half_written_fd && class == WRITE) {
            half_written_fd = -1;
            return ENOSPC;
        }
        break;
    }
    if (number != target)
        return GO_ON;
    switch (fault) {
    case KILL_BEFORE: die(); break;
    case KILL_AFTER: return DIE_AFTER;
    case EIO_ONCE: return EIO;
    case ENOSPC_ONCE: return ENOSPC;
    case SHORT: return class == WRITE ? HALF : GO_ON;
    case SHORT_THEN_ENOSPC:
        if (class != WRITE)
            return GO_ON;
        half_written_fd = fd;
        return HALF;
    }
    return GO_ON;
}

static int enter(const char *name, int class, int fd, const char *path)
{
    char place[8192], line[8400];
    int before = errno;
    if (!concerns(fd, path, place, sizeof place)) {
        errno = before;
        return GO_ON;
    }
    int number = atomic_fetch_add(&seen, 1) + 1;
    if (log_fd >= 0) {
        int n = snprintf(line, sizeof line, "%d %c %s %s\n", number, class, name, place + root_length);
        syscall(SYS_write, log_fd, line, (size_t)n);
    }
    int what = verdict(number, class, path ? -1 : fd);
    if (what != GO_ON)
        atomic_fetch_add(&fired, 1);
    errno = before;
    return what;
}

static void leave(int what)
{
    if (what == DIE_AFTER)
        die();
}

#define REAL(type, name, params) \
    static type(*real) params; \
    if (!real) \
        real = (type(*) params)dlsym(RTLD_NEXT, name)

/* A wrapper around one libc function: the fault's errno and `failed`, or the real call. */
#define WRAP(type, name, params, args, failed, class, fd, path) \
    type name params \
    { \
        REAL(type, #name, params); \
        if (!atomic_load(&armed)) \
            return real args; \
        int what = enter(#name, class, fd, path); \
        if (what > 0) { \
            errno = what; \
            return failed; \
        } \
        type result = real args; \
        leave(what); \
        return result; \
    }

/* The same for writes, which can also be cut in half. */
#define WRAP_WRITE(name, params, args, half_args) \
    ssize_t name params \
    { \
        REAL(ssize_t, #name, params); \
        if (!atomic_load(&armed)) \
            return real args; \
        int what = enter(#name, WRITE, fd, NULL); \
        if (what > 0) { \
            errno = what; \
            return -1; \
        } \
        ssize_t result = what == HALF ? real half_args : real args; \
        leave(what); \
        return result; \
    }

#define HALF_OF(n) ((n) > 1 ? (n) / 2 : (n))

WRAP_WRITE(write, (int fd, const void *data, size_t n), (fd, data, n), (fd, data, HALF_OF(n)))
WRAP_WRITE(pwrite, (int fd, const void *data, size_t n, off_t at), (fd, data, n, at), (fd, data, HALF_OF(n), at))
WRAP_WRITE(pwrite64, (int fd, const void *data, size_t n, off64_t at), (fd, data, n, at), (fd, data, HALF_OF(n), at))
WRAP_WRITE(writev, (int fd, const struct iovec *parts, int n), (fd, parts, n), (fd, parts, HALF_OF(n)))
WRAP(ssize_t, copy_file_range, (int in, off64_t *from, int fd, off64_t *to, size_t n, unsigned flags),
     (in, from, fd, to, n, flags), -1, WRITE, fd, NULL)
WRAP(ssize_t, sendfile, (int fd, int in, off_t *from, size_t n), (fd, in, from, n), -1, WRITE, fd, NULL)
WRAP(ssize_t, sendfile64, (int fd, int in, off64_t *from, size_t n), (fd, in, from, n), -1, WRITE, fd, NULL)
WRAP(int, fallocate, (int fd, int mode, off_t at, off_t n), (fd, mode, at, n), -1, WRITE, fd, NULL)
WRAP(int, fallocate64, (int fd, int mode, off64_t at, off64_t n), (fd, mode, at, n), -1, WRITE, fd, NULL)
/* These two return the error instead of setting errno. */
WRAP(int, posix_fallocate, (int fd, off_t at, off_t n), (fd, at, n), errno, WRITE, fd, NULL)
WRAP(int, posix_fallocate64, (int fd, off64_t at, off64_t n), (fd, at, n), errno, WRITE, fd, NULL)

WRAP(ssize_t, read, (int fd, void *data, size_t n), (fd, data, n), -1, READ, fd, NULL)
WRAP(ssize_t, pread, (int fd, void *data, size_t n, off_t at), (fd, data, n, at), -1, READ, fd, NULL)
WRAP(ssize_t, pread64, (int fd, void *data, size_t n, off64_t at), (fd, data, n, at), -1, READ, fd, NULL)
WRAP(ssize_t, readv, (int fd, const struct iovec *parts, int n), (fd, parts, n), -1, READ, fd, NULL)
WRAP(ssize_t, readlink, (const char *path, char *out, size_t n), (path, out, n), -1, READ, AT_FDCWD, path)
WRAP(ssize_t, readlinkat, (int at, const char *path, char *out, size_t n), (at, path, out, n), -1, READ, at, path)
WRAP(int, stat, (const char *path, struct stat *out), (path, out), -1, READ, AT_FDCWD, path)
WRAP(int, stat64, (const char *path, struct stat64 *out), (path, out), -1, READ, AT_FDCWD, path)
WRAP(int, lstat, (const char *path, struct stat *out), (path, out), -1, READ, AT_FDCWD, path)
WRAP(int, lstat64, (const char *path, struct stat64 *out), (path, out), -1, READ, AT_FDCWD, path)
WRAP(int, fstat, (int fd, struct stat *out), (fd, out), -1, READ, fd, NULL)
WRAP(int, fstat64, (int fd, struct stat64 *out), (fd, out), -1, READ, fd, NULL)
WRAP(int, fstatat, (int at, const char *path, struct stat *out, int flags), (at, path, out, flags), -1, READ, at, path)
WRAP(int, fstatat64, (int at, const char *path, struct stat64 *out, int flags), (at, path, out, flags), -1, READ, at,
     path)
WRAP(int, statfs, (const char *path, struct statfs *out), (path, out), -1, READ, AT_FDCWD, path)
WRAP(int, statfs64, (const char *path, struct statfs64 *out), (path, out), -1, READ, AT_FDCWD, path)
WRAP(int, fstatfs, (int fd, struct statfs *out), (fd, out), -1, READ, fd, NULL)
WRAP(int, fstatfs64, (int fd, struct statfs64 *out), (fd, out), -1, READ, fd, NULL)
WRAP(int, statvfs, (const char *path, struct statvfs *out), (path, out), -1, READ, AT_FDCWD, path)
WRAP(int, fstatvfs, (int fd, struct statvfs *out), (fd, out), -1, READ, fd, NULL)
WRAP(int, access, (const char *path, int mode), (path, mode), -1, READ, AT_FDCWD, path)
WRAP(int, faccessat, (int at, const char *path, int mode, int flags), (at, path, mode, flags), -1, READ, at, path)
WRAP(DIR *, opendir, (const char *path), (path), NULL, READ, AT_FDCWD, path)
WRAP(DIR *, fdopendir, (int fd), (fd), NULL, READ, fd, NULL)
WRAP(struct dirent *, readdir, (DIR * dir), (dir), NULL, READ, dirfd(dir), NULL)
WRAP(struct dirent64 *, readdir64, (DIR * dir), (dir), NULL, READ, dirfd(dir), NULL)

WRAP(int, creat, (const char *path, mode_t mode), (path, mode), -1, MAKE, AT_FDCWD, path)
WRAP(int, creat64, (const char *path, mode_t mode), (path, mode), -1, MAKE, AT_FDCWD, path)
WRAP(int, mkdir, (const char *path, mode_t mode), (path, mode), -1, MAKE, AT_FDCWD, path)
WRAP(int, mkdirat, (int at, const char *path, mode_t mode), (at, path, mode), -1, MAKE, at, path)
WRAP(int, rename, (const char *from, const char *to), (from, to), -1, MAKE, AT_FDCWD, to)
WRAP(int, renameat, (int at, const char *from, int to_at, const char *to), (at, from, to_at, to), -1, MAKE, to_at, to)
WRAP(int, renameat2, (int at, const char *from, int to_at, const char *to, unsigned flags),
     (at, from, to_at, to, flags), -1, MAKE, to_at, to)
WRAP(int, link, (const char *from, const char *to), (from, to), -1, MAKE, AT_FDCWD, to)
WRAP(int, linkat, (int at, const char *from, int to_at, const char *to, int flags), (at, from, to_at, to, flags), -1,
     MAKE, to_at, to)
WRAP(int, symlink, (const char *to, const char *path), (to, path), -1, MAKE, AT_FDCWD, path)
WRAP(int, symlinkat, (const char *to, int at, const char *path), (to, at, path), -1, MAKE, at, path)

WRAP(int, unlink, (const char *path), (path), -1, CHANGE, AT_FDCWD, path)
WRAP(int, unlinkat, (int at, const char *path, int flags), (at, path, flags), -1, CHANGE, at, path)
WRAP(int, rmdir, (const char *path), (path), -1, CHANGE, AT_FDCWD, path)
WRAP(int, remove, (const char *path), (path), -1, CHANGE, AT_FDCWD, path)
WRAP(int, truncate, (const char *path, off_t n), (path, n), -1, CHANGE, AT_FDCWD, path)
WRAP(int, truncate64, (const char *path, off64_t n), (path, n), -1, CHANGE, AT_FDCWD, path)
WRAP(int, ftruncate, (int fd, off_t n), (fd, n), -1, CHANGE, fd, NULL)
WRAP(int, ftruncate64, (int fd, off64_t n), (fd, n), -1, CHANGE, fd, NULL)
WRAP(int, chmod, (const char *path, mode_t mode), (path, mode), -1, CHANGE, AT_FDCWD, path)
WRAP(int, fchmod, (int fd, mode_t mode), (fd, mode), -1, CHANGE, fd, NULL)
WRAP(int, fchmodat, (int at, const char *path, mode_t mode, int flags), (at, path, mode, flags), -1, CHANGE, at, path)
WRAP(int, fchown, (int fd, uid_t user, gid_t group), (fd, user, group), -1, CHANGE, fd, NULL)
WRAP(int, utimensat, (int at, const char *path, const struct timespec times[2], int flags), (at, path, times, flags), -1,
     CHANGE, at, path)
WRAP(int, futimens, (int fd, const struct timespec times[2]), (fd, times), -1, CHANGE, fd, NULL)

WRAP(int, fsync, (int fd), (fd), -1, SYNC, fd, NULL)
WRAP(int, fdatasync, (int fd), (fd), -1, SYNC, fd, NULL)
WRAP(int, syncfs, (int fd), (fd), -1, SYNC, fd, NULL)
WRAP(int, sync_file_range, (int fd, off64_t at, off64_t n, unsigned flags), (fd, at, n, flags), -1, SYNC, fd, NULL)

WRAP(void *, mmap, (void *at, size_t n, int protection, int flags, int fd, off_t from),
     (at, n, protection, flags, fd, from), MAP_FAILED, READ, fd < 0 ? -1 : fd, NULL)
WRAP(void *, mmap64, (void *at, size_t n, int protection, int flags, int fd, off64_t from),
     (at, n, protection, flags, fd, from), MAP_FAILED, READ, fd < 0 ? -1 : fd, NULL)

/* A descriptor is gone even when close reports an error. */
int close(int fd)
{
    REAL(int, "close", (int));
    if (!atomic_load(&armed))
        return real(fd);
    int what = enter("close", CLOSE, fd, NULL);
    int result = real(fd);
    leave(what);
    if (what > 0) {
        errno = what;
        return -1;
    }
    return result;
}


/* Giving a lock back never fails on a local disk, so only a kill can hit it. */
int flock(int fd, int operation)
{
    REAL(int, "flock", (int, int));
    if (!atomic_load(&armed))
        return real(fd, operation);
    int what = enter("flock", LOCK, fd, NULL);
    if (what > 0 && !(operation & LOCK_UN)) {
        errno = what;
        return -1;
    }
    int result = real(fd, operation);
    leave(what);
    return result;
}

static int locks(int operation)
{
    return operation == F_SETLK || operation == F_SETLKW || operation == F_OFD_SETLK || operation == F_OFD_SETLKW;
}

#define WRAP_FCNTL(name) \
    int name(int fd, int operation, ...) \
    { \
        REAL(int, #name, (int, int, ...)); \
        va_list rest; \
        va_start(rest, operation); \
        void *argument = va_arg(rest, void *); \
        va_end(rest); \
        if (!atomic_load(&armed) || !locks(operation)) \
            return real(fd, operation, argument); \
        int what = enter(#name, LOCK, fd, NULL); \
        if (what > 0 && ((struct flock *)argument)->l_type != F_UNLCK) { \
            errno = what; \
            return -1; \
        } \
        int result = real(fd, operation, argument); \
        leave(what); \
        return result; \
    }

WRAP_FCNTL(fcntl)
WRAP_FCNTL(fcntl64)

/* The mode is there only when something may be made. */
#define WRAP_OPEN(name, params, at, path, real_params, real_args) \
    int name params \
    { \
        REAL(int, #name, real_params); \
        mode_t mode = 0; \
        if (flags & (O_CREAT | O_TMPFILE)) { \
            va_list rest; \
            va_start(rest, flags); \
            mode = va_arg(rest, mode_t); \
            va_end(rest); \
        } \
        if (!atomic_load(&armed)) \
            return real real_args; \
        int what = enter(#name, flags & O_CREAT ? MAKE : READ, at, path); \
        if (what > 0) { \
            errno = what; \
            return -1; \
        } \
        int result = real real_args; \
        leave(what); \
        return result; \
    }

WRAP_OPEN(open, (const char *path, int flags, ...), AT_FDCWD, path, (const char *, int, ...), (path, flags, mode))
WRAP_OPEN(open64, (const char *path, int flags, ...), AT_FDCWD, path, (const char *, int, ...), (path, flags, mode))
WRAP_OPEN(openat, (int at, const char *path, int flags, ...), at, path, (int, const char *, int, ...),
          (at, path, flags, mode))
WRAP_OPEN(openat64, (int at, const char *path, int flags, ...), at, path, (int, const char *, int, ...),
          (at, path, flags, mode))
