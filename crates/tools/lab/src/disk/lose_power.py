"""Takes the power of mounted ext4 file systems, all at once.

Arguments: the name of a file that is written on each of them and not synced, then the directories
at which they are mounted. From then on nothing is written to them, and calls on their files fail.
"""

import fcntl
import os
import struct
import sys

EXT4_IOC_SHUTDOWN = 0x8004587D
# Not even the journal is written.
NO_LOG_FLUSH = struct.pack("I", 2)

disks = [os.open(path, os.O_RDONLY) for path in sys.argv[2:]]
for disk in disks:
    unsynced = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=disk)
    os.write(unsynced, b"not synced")
for disk in disks:
    fcntl.ioctl(disk, EXT4_IOC_SHUTDOWN, NO_LOG_FLUSH)
