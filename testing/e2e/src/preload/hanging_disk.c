/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Disks that hang or are slow at will, preloaded into a server (LD_PRELOAD).
 *
 * HANGING_DISKS names directories, with colons between them. While the file DIR.hangs exists beside
 * such a directory, every call that changes a file below it waits, as for a disk that does not
 * answer. What began before is finished. Reads go on: the system has in memory what was written
 * lately. While the file DIR.slow exists, each sync of a file below DIR takes longer, by a random
 * time within the range in that file: two numbers of milliseconds.
 *
 * Not intercepted: files mapped to memory, and asynchronous input and output (libaio, io_uring);
 * a server has to be told not to use them.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define DISKS_MAX 4

struct disk {
    char dir[PATH_MAX];
    char flag[PATH_MAX + 8];
    char slow[PATH_MAX + 8];
};

static struct disk disks[DISKS_MAX];
static int disk_count;

__attribute__((constructor)) static void read_disks(void)
{
    const char *names = getenv("HANGING_DISKS");
    while (names && *names && disk_count < DISKS_MAX) {
        size_t length = strcspn(names, ":");
        if (length > 0 && length < PATH_MAX) {
            struct disk *disk = &disks[disk_count++];
            memcpy(disk->dir, names, length);
            memcpy(disk->flag, names, length);
            strcpy(disk->flag + length, ".hangs");
            memcpy(disk->slow, names, length);
            strcpy(disk->slow + length, ".slow");
        }
        names += length + (names[length] == ':');
    }
}

static int is_on(const struct disk *disk, const char *path)
{
    size_t length = strlen(disk->dir);
    return strncmp(path, disk->dir, length) == 0 && (path[length] == '/' || !path[length]);
}

static int hangs(const struct disk *disk)
{
    return access(disk->flag, F_OK) == 0;
}

static void wait_for(const struct disk *disk)
{
    const struct timespec pause = {.tv_nsec = 5 * 1000 * 1000};
    while (hangs(disk))
        nanosleep(&pause, NULL);
}

/* Waits while the disk hangs that has this path. */
static void await_path(const char *path)
{
    int before = errno;
    for (int i = 0; i < disk_count; i++)
        if (path && is_on(&disks[i], path))
            wait_for(&disks[i]);
    errno = before;
}

static int is_file_on(const struct disk *disk, int fd)
{
    char link[32], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    return is_on(disk, path);
}

/* The same for an open file. Its path is asked for only while a disk hangs. */
static void await_file(int fd)
{
    int before = errno;
    for (int i = 0; i < disk_count; i++)
        if (hangs(&disks[i]) && is_file_on(&disks[i], fd))
            wait_for(&disks[i]);
    errno = before;
}

static void take_longer(const struct disk *disk)
{
    static __thread unsigned seed;
    long least = 0, most = 0;
    FILE *range = fopen(disk->slow, "r");
    if (!range)
        return;
    if (fscanf(range, "%ld %ld", &least, &most) != 2 || most < least)
        abort();
    fclose(range);
    if (!seed)
        seed = (unsigned)getpid() ^ (unsigned)time(NULL);
    long ms = least + rand_r(&seed) % (most - least + 1);
    const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000 * 1000};
    nanosleep(&pause, NULL);
}

static void await_sync(int fd)
{
    int before = errno;
    await_file(fd);
    for (int i = 0; i < disk_count; i++)
        if (access(disks[i].slow, F_OK) == 0 && is_file_on(&disks[i], fd))
            take_longer(&disks[i]);
    errno = before;
}

/* Defines a function that waits and then does what the one of the C library does. */
#define AFTER(wait, type, name, parameters, arguments)                     \
    type name parameters                                                   \
    {                                                                      \
        static type(*original) parameters;                                 \
        if (!original)                                                     \
            original = (type(*) parameters)dlsym(RTLD_NEXT, #name);        \
        wait;                                                              \
        return original arguments;                                         \
    }

AFTER(await_sync(fd), int, fsync, (int fd), (fd))
AFTER(await_sync(fd), int, fdatasync, (int fd), (fd))
AFTER(await_file(fd), ssize_t, write, (int fd, const void *b, size_t n), (fd, b, n))
AFTER(await_file(fd), ssize_t, writev, (int fd, const struct iovec *v, int n), (fd, v, n))
AFTER(await_file(fd), ssize_t, pwrite, (int fd, const void *b, size_t n, off_t at), (fd, b, n, at))
AFTER(await_file(fd), ssize_t, pwrite64, (int fd, const void *b, size_t n, off64_t at),
      (fd, b, n, at))
AFTER(await_file(fd), int, ftruncate, (int fd, off_t size), (fd, size))
AFTER(await_file(fd), int, ftruncate64, (int fd, off64_t size), (fd, size))
AFTER(await_file(fd), int, fallocate, (int fd, int mode, off_t at, off_t n), (fd, mode, at, n))
AFTER(await_file(fd), int, fallocate64, (int fd, int mode, off64_t at, off64_t n),
      (fd, mode, at, n))
AFTER(await_path(to), int, rename, (const char *from, const char *to), (from, to))
AFTER(await_path(path), int, unlink, (const char *path), (path))
