/*
 * Stands between a process and the C library (LD_PRELOAD) and makes things go wrong with the files below one
 * folder. What goes wrong is said by a file that a test writes at any time (struct control); what was done is
 * told to another file (struct record), in order, with all data.
 *
 * LONGHAUL_SHIM_ROOT     the folder, an absolute path without links
 * LONGHAUL_SHIM_CONTROL  the file that says what goes wrong
 * LONGHAUL_SHIM_TRACE    the file that is told what was done; nothing is told if it is not set
 *
 * The system is called directly: no function of the C library is looked up, so that this works from the first
 * instruction of the process on. Programs that call the system directly themselves are not seen.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum kind {
    WRITE = 1, TRUNCATE = 2, SYNC = 4, RENAME = 8, LINK = 16, UNLINK = 32, CREATE = 64, MKDIR = 128,
    SYNC_FAILED = 256, FOLDER_SYNC = 512, RMDIR = 1024
};

/* Where in an operation the process is killed. */
enum moment { BEFORE = 0, AFTER = 1, AMID = 2 };

struct control {
    _Atomic int64_t counted;     /* operations that matched */
    _Atomic int64_t kill_at;     /* which of them is the last; 0: none */
    _Atomic int64_t moment;
    _Atomic int64_t kinds;       /* those that match */
    _Atomic int64_t full;        /* no room for anything new */
    _Atomic int64_t bad_syncs;   /* how many of the next fsyncs that match fail; below 0: all */
    _Atomic int64_t clock_ns;    /* added to the time of day */
    _Atomic int64_t lazy;        /* fsync is told, and not done */
    _Atomic int64_t read_only;
    int64_t reserved[7];
    char pattern[64];            /* part of the path of operations that match, or with `$` its end */
    char last[128];              /* the operation at which the process was killed */
};

struct record {
    uint32_t kind, path_bytes, other_bytes, data_bytes;
    uint64_t file;               /* number of the file (inode) */
    int64_t place;               /* offset of a write, length after a truncation */
};

#define MOST_FILES 4096
struct open_file {
    _Atomic int known;
    int is_folder;
    uint64_t number;
    char path[256];
};

static struct open_file files[MOST_FILES];
static struct control none, *control = &none;
static const char *root;
static size_t root_bytes;
static int trace = -1;
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void begin(void) {
    const char *said = getenv("LONGHAUL_SHIM_CONTROL"), *told = getenv("LONGHAUL_SHIM_TRACE");
    const char *folder = getenv("LONGHAUL_SHIM_ROOT");
    if (!said || !folder) return;
    int fd = syscall(SYS_openat, AT_FDCWD, said, O_RDWR | O_CLOEXEC, 0);
    void *page = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) abort();
    syscall(SYS_close, fd);
    if (told) trace = syscall(SYS_openat, AT_FDCWD, told, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    control = page;
    root_bytes = strlen(folder);
    root = strdup(folder);
}

/* The path within the folder, "" for the folder itself; NULL if it lies elsewhere. */
static const char *within(const char *path) {
    if (!root || !path || strncmp(path, root, root_bytes) != 0) return NULL;
    if (path[root_bytes] == '\0') return "";
    return path[root_bytes] == '/' ? path + root_bytes + 1 : NULL;
}

static struct open_file *of(int fd) {
    int known = root && fd >= 0 && fd < MOST_FILES && atomic_load(&files[fd].known);
    return known ? &files[fd] : NULL;
}

static void tell(uint32_t kind, const char *path, const char *other, uint64_t file, int64_t place,
                 const void *data, size_t bytes) {
    if (trace < 0) return;
    struct record head = { kind, strlen(path), strlen(other), bytes, file, place };
    struct iovec all[4] = {
        { &head, sizeof head }, { (void *)path, head.path_bytes }, { (void *)other, head.other_bytes },
        { (void *)data, bytes },
    };
    if (syscall(SYS_writev, trace, all, 4) < 0) abort();
}

static const char *name(int kind) {
    switch (kind) {
    case WRITE: return "write";
    case TRUNCATE: return "truncate";
    case SYNC: return "fsync";
    case RENAME: return "rename";
    case LINK: return "link";
    case UNLINK: return "unlink";
    case CREATE: return "create";
    default: return "mkdir";
    }
}

static void die(int kind, const char *path) {
    static const char *const moments[] = { "before", "after", "amid" };
    snprintf(control->last, sizeof control->last, "%s %s %s", moments[control->moment], name(kind), path);
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;) pause();
}

/* `$` at the end of the pattern is the end of the path. */
static int matches(int kind, const char *path) {
    if (!(atomic_load(&control->kinds) & kind)) return 0;
    size_t most = strnlen(control->pattern, sizeof control->pattern), all = strlen(path);
    if (most == 0 || control->pattern[most - 1] != '$') return strstr(path, control->pattern) != NULL;
    most--;
    return all >= most && memcmp(path + all - most, control->pattern, most) == 0;
}

/* Says whether this is the operation to die at; dies if that is to be before it. Holds the mutex. */
static int enter(int kind, const char *path) {
    pthread_mutex_lock(&one_at_a_time);
    if (!matches(kind, path)) return 0;
    int64_t count = atomic_fetch_add(&control->counted, 1) + 1;
    int here = count == atomic_load(&control->kill_at);
    int amid = atomic_load(&control->moment) == AMID && kind == WRITE;
    if (here && atomic_load(&control->moment) != AFTER && !amid) die(kind, path);
    return here;
}

static void leave(int here, int kind, const char *path) {
    if (here) die(kind, path);
    pthread_mutex_unlock(&one_at_a_time);
}

static int refused(void) {
    if (atomic_load(&control->read_only)) errno = EROFS;
    else if (atomic_load(&control->full)) errno = ENOSPC;
    else return 0;
    return 1;
}

/* Files are opened. */

static void remember(int fd, const char *path) {
    struct stat about;
    if (fd < 0 || fd >= MOST_FILES || fstat(fd, &about) != 0) return;
    files[fd].is_folder = S_ISDIR(about.st_mode);
    files[fd].number = about.st_ino;
    snprintf(files[fd].path, sizeof files[fd].path, "%s", path);
    atomic_store(&files[fd].known, 1);
}

static int open_within(int folder, const char *full, const char *path, int flags, mode_t mode) {
    int writes = (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC));
    if (writes && atomic_load(&control->read_only)) return errno = EROFS, -1;
    int is_new = (flags & O_CREAT) && syscall(SYS_faccessat, folder, full, F_OK) != 0;
    if (!is_new && !(flags & O_TRUNC)) {
        int fd = syscall(SYS_openat, folder, full, flags, mode);
        remember(fd, path);
        return fd;
    }
    if (is_new && refused()) return -1;
    int kind = is_new ? CREATE : TRUNCATE, here = enter(kind, path);
    int fd = syscall(SYS_openat, folder, full, flags, mode), why = errno;
    remember(fd, path);
    if (fd >= 0 && of(fd)) tell(kind, path, "", files[fd].number, 0, NULL, 0);
    leave(here, kind, path);
    return errno = why, fd;
}

static int open_any(int folder, const char *full, int flags, mode_t mode) {
    const char *path = within(full);
    if (path) return open_within(folder, full, path, flags, mode);
    return syscall(SYS_openat, folder, full, flags, mode);
}

#define OPEN(FUNCTION)                                     \
    int FUNCTION(const char *full, int flags, ...) {       \
        va_list more;                                      \
        va_start(more, flags);                             \
        mode_t mode = va_arg(more, int);                   \
        va_end(more);                                      \
        return open_any(AT_FDCWD, full, flags, mode);      \
    }
#define OPENAT(FUNCTION)                                          \
    int FUNCTION(int folder, const char *full, int flags, ...) {  \
        va_list more;                                             \
        va_start(more, flags);                                    \
        mode_t mode = va_arg(more, int);                          \
        va_end(more);                                             \
        return open_any(folder, full, flags, mode);               \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

int close(int fd) {
    struct open_file *file = of(fd);
    if (file) atomic_store(&file->known, 0);
    return syscall(SYS_close, fd);
}

/* Files are written. */

static off_t size_of(int fd) {
    struct stat about;
    return fstat(fd, &about) == 0 ? about.st_size : 0;
}

/* A full disk takes what fits, and then nothing. */
static size_t room(int fd, size_t bytes, off_t place) {
    if (!atomic_load(&control->full) || place + (off_t)bytes <= size_of(fd)) return bytes;
    return bytes >= 512 ? bytes / 2 : 0;
}

static ssize_t write_at(struct open_file *file, int fd, const void *data, size_t bytes, off_t place) {
    int here = enter(WRITE, file->path);
    size_t most = room(fd, bytes, place);
    if (here && atomic_load(&control->moment) == AMID) most = bytes / 2;
    ssize_t done = -1;
    int why = ENOSPC;
    if (most > 0 || bytes == 0) {
        done = syscall(SYS_pwrite64, fd, data, most, place);
        why = errno;
    }
    if (done > 0) tell(WRITE, file->path, "", file->number, place, data, done);
    leave(here, WRITE, file->path);
    return errno = why, done;
}

ssize_t pwrite64(int fd, const void *data, size_t bytes, off_t place) {
    struct open_file *file = of(fd);
    return file ? write_at(file, fd, data, bytes, place) : syscall(SYS_pwrite64, fd, data, bytes, place);
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t place) { return pwrite64(fd, data, bytes, place); }

ssize_t write(int fd, const void *data, size_t bytes) {
    struct open_file *file = of(fd);
    if (!file) return syscall(SYS_write, fd, data, bytes);
    int appends = syscall(SYS_fcntl, fd, F_GETFL) & O_APPEND;
    off_t place = appends ? size_of(fd) : syscall(SYS_lseek, fd, 0, SEEK_CUR);
    ssize_t done = write_at(file, fd, data, bytes, place);
    if (done > 0) syscall(SYS_lseek, fd, place + done, SEEK_SET);
    return done;
}

ssize_t writev(int fd, const struct iovec *pieces, int count) {
    if (!of(fd)) return syscall(SYS_writev, fd, pieces, count);
    ssize_t all = 0;
    for (int piece = 0; piece < count; piece++) {
        ssize_t done = write(fd, pieces[piece].iov_base, pieces[piece].iov_len);
        if (done < 0) return all > 0 ? all : -1;
        all += done;
        if ((size_t)done < pieces[piece].iov_len) break;
    }
    return all;
}

int ftruncate64(int fd, off_t length) {
    struct open_file *file = of(fd);
    if (!file) return syscall(SYS_ftruncate, fd, length);
    if (atomic_load(&control->full) && length > size_of(fd)) return errno = ENOSPC, -1;
    int here = enter(TRUNCATE, file->path);
    int done = syscall(SYS_ftruncate, fd, length), why = errno;
    if (done == 0) tell(TRUNCATE, file->path, "", file->number, length, NULL, 0);
    leave(here, TRUNCATE, file->path);
    return errno = why, done;
}

int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }

static int sync_any(int fd, long how) {
    struct open_file *file = of(fd);
    if (!file) return syscall(how, fd);
    int here = enter(SYNC, file->path), done = 0, why = EIO;
    int64_t bad = matches(SYNC, file->path) ? atomic_load(&control->bad_syncs) : 0;
    if (bad > 0) atomic_fetch_sub(&control->bad_syncs, 1);
    if (bad != 0) {
        done = -1;
    } else if (!atomic_load(&control->lazy)) {
        done = syscall(how, fd);
        why = errno;
    }
    uint32_t kind = done != 0 ? SYNC_FAILED : file->is_folder ? FOLDER_SYNC : SYNC;
    tell(kind, file->path, "", file->number, 0, NULL, 0);
    leave(here, SYNC, file->path);
    return errno = why, done;
}

int fsync(int fd) { return sync_any(fd, SYS_fsync); }

int fdatasync(int fd) { return sync_any(fd, SYS_fdatasync); }

/* Names come and go. */

#define CHANGE(KIND, PATH, OTHER, FILE, CALL)          \
    do {                                               \
        int here = enter(KIND, PATH);                  \
        int done = (CALL), why = errno;                \
        if (done == 0) tell(KIND, PATH, OTHER, FILE, 0, NULL, 0); \
        leave(here, KIND, PATH);                       \
        return errno = why, done;                      \
    } while (0)

static uint64_t number_of(const char *full) {
    struct stat about;
    return lstat(full, &about) == 0 ? about.st_ino : 0;
}

int mkdir(const char *full, mode_t mode) {
    const char *path = within(full);
    if (!path) return syscall(SYS_mkdirat, AT_FDCWD, full, mode);
    if (refused()) return -1;
    CHANGE(MKDIR, path, "", 0, syscall(SYS_mkdirat, AT_FDCWD, full, mode));
}

int rmdir(const char *full) {
    const char *path = within(full);
    if (!path) return syscall(SYS_unlinkat, AT_FDCWD, full, AT_REMOVEDIR);
    CHANGE(RMDIR, path, "", 0, syscall(SYS_unlinkat, AT_FDCWD, full, AT_REMOVEDIR));
}

int unlink(const char *full) {
    const char *path = within(full);
    if (!path) return syscall(SYS_unlinkat, AT_FDCWD, full, 0);
    if (atomic_load(&control->read_only)) return errno = EROFS, -1;
    CHANGE(UNLINK, path, "", 0, syscall(SYS_unlinkat, AT_FDCWD, full, 0));
}

int rename(const char *from, const char *to) {
    const char *path = within(to), *old = within(from);
    if (!path || !old) return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    if (atomic_load(&control->read_only)) return errno = EROFS, -1;
    uint64_t file = number_of(from);
    CHANGE(RENAME, path, old, file, syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    const char *path = within(to);
    if (!path) return syscall(SYS_linkat, from_folder, from, to_folder, to, flags);
    if (refused()) return -1;
    uint64_t file = number_of(from);
    CHANGE(LINK, path, "", file, syscall(SYS_linkat, from_folder, from, to_folder, to, flags));
}

int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }

/* The time of day. */

int clock_gettime(clockid_t clock, struct timespec *now) {
    int done = syscall(SYS_clock_gettime, clock, now);
    if (done == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t shift = atomic_load(&control->clock_ns), ns = now->tv_nsec + shift % 1000000000;
        now->tv_sec += shift / 1000000000 + (ns >= 1000000000) - (ns < 0);
        now->tv_nsec = (ns + 1000000000) % 1000000000;
    }
    return done;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &exact) != 0) return -1;
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *also) {
    struct timespec exact;
    if (clock_gettime(CLOCK_REALTIME, &exact) != 0) return -1;
    if (also) *also = exact.tv_sec;
    return exact.tv_sec;
}
