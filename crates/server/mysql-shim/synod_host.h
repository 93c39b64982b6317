/* Calls between a MySQL server's plugin (the shim, C++) and its host (Rust).

   SPDX-License-Identifier: MIT OR Apache-2.0

   The other side is crates/server/mysql-host/src/boundary/mod.rs; both have the same number of this
   interface, and the host refuses to start with another one.

   Threads. A thread of a client waits in synod_host_commit, for the group, at most until the group
   is lost, the statement is killed, or the host stops; and in synod_host_position and
   synod_host_lead, at most as long as they are told. Nothing else that the shim calls waits for the
   group, but for synod_host_leave (some seconds) and synod_host_stop. Functions of the
   server's table are called from the host's own threads, each within thread_begin and thread_end;
   but log, which comes from any thread and must not wait, and is_killed, which comes from another
   thread while the client waits. No lock of the host is held in a call of the table. */
#ifndef SYNOD_HOST_H
#define SYNOD_HOST_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SYNOD_HOST_INTERFACE 7

enum synod_level { SYNOD_DEBUG = 0, SYNOD_INFO = 1, SYNOD_WARNING = 2, SYNOD_ERROR = 3 };

/* The server, as the host uses it. Results are 0 for success, where nothing else is said. */
struct synod_server {
  uint32_t interface_version;
  void (*log)(int32_t level, const char *text, size_t length);
  /* The calling thread becomes one of the server's; 1: the server does not take threads yet. */
  int32_t (*thread_begin)(void **thread);
  void (*thread_end)(void *thread);
  /* Begins with an empty queue. */
  int32_t (*channel_create)(void);
  /* Starts the applier of the channel, with what is queued. */
  int32_t (*channel_start)(void);
  int32_t (*channel_stop)(void);
  int32_t (*channel_queue)(const uint8_t *event, size_t length);
  /* 1: the applier runs; 0: it has stopped. */
  int32_t (*channel_is_applying)(void);
  /* Hands over gtid_executed, encoded as MySQL does for replicas. */
  int32_t (*executed)(void *context,
                      void (*take)(void *context, const uint8_t *bytes, size_t length));
  /* Whether clients may write: super_read_only and read_only. May wait for commits under way. */
  int32_t (*set_read_only)(int32_t on);
  /* Whether ordinary clients are sent away: offline_mode. */
  int32_t (*set_offline)(int32_t on);
  /* Whether each commit waits for its flush: innodb_flush_log_at_trx_commit is 1, or 0. */
  int32_t (*set_flush)(int32_t on);
  /* 1: each commit waits for its flush. */
  int32_t (*flushes)(void);
};

/* Values of the plugin's variables. Texts end with a zero byte. */
struct synod_settings {
  const char *group;    /* UUID of the group: that of its GTIDs */
  const char *name;
  const char *address;  /* host:port for the other members */
  const char *members;  /* host:port, separated by commas */
  const char *options;  /* as in wsrep_provider_options */
  const char *incoming; /* host:port (server_uuid): the server, for clients */
  const char *data_dir;
  int32_t bootstrap;
  uint32_t server_version; /* such as 90704 */
  uint32_t server_id;
  const char *server_version_text;
};

/* A transaction at its commit. All is valid until synod_host_commit returns. */
struct synod_transaction {
  void *context;
  /* Hands over its events in pieces, from the beginning at each call, until `take` returns other
     than 0. Returns 0 if it has taken all. */
  int32_t (*read)(void *context, void *to,
                  int32_t (*take)(void *to, const uint8_t *piece, size_t length));
  int32_t (*is_killed)(void *context);
  uint64_t bytes;
  const uint64_t *hashes;
  size_t hash_count;
  /* Nothing may be applied beside it: what it changes is not all in the hashes. */
  int32_t runs_alone;
  /* It is acknowledged once all present servers have applied it. */
  int32_t waits_for_others;
  /* synod_host_opening() at its first statement; -1: it is one statement. */
  int64_t began;
  uint32_t thread;
};

enum synod_decision {
  SYNOD_ORDERED = 0, /* commits as this number */
  SYNOD_REFUSED = 1, /* is not and never will be committed anywhere */
  SYNOD_UNKNOWN = 2, /* may be committed by the group later: it then comes by the channel */
  SYNOD_TOO_LARGE = 3 /* refused, and will be each time */
};

struct synod_status {
  char state[16];     /* stopped, joining, replica, writer, failed */
  char writer[64];    /* name of the writer */
  char problem[512];  /* why it does not take part, or does not write; empty: nothing is wrong */
  char members[512];  /* names of the members that are present */
  int64_t applied;    /* everything up to here is in this database */
  int64_t committed;  /* the group's history as known here */
  uint64_t checked;   /* transactions of all servers that are ordered since this one joined */
  uint64_t waiting;   /* those of others among them that this database lacks */
  uint64_t ordered;
  uint64_t refused;
  uint64_t unknown;
  int32_t primary;
};

/* A server that is present in the group. */
struct synod_member {
  char server[40]; /* its server_uuid */
  char name[64];
  char host[256];
  char state[16]; /* ONLINE, RECOVERING, UNREACHABLE, ERROR */
  uint32_t port;
  int32_t is_writer;
  int32_t is_self;
};

/* Positions that a transaction sees at least. */
enum synod_position {
  SYNOD_NEW_WRITER = 0, /* all before the time of this server, if it is about to be the writer */
  SYNOD_LATEST = 1,     /* all that was acknowledged anywhere before the call */
  SYNOD_SYNCED = 2      /* that of a new writer, and what the group had when this server joined */
};

/* Starts the host. On failure, the reason is in `why`. */
int32_t synod_host_start(const struct synod_server *server, const struct synod_settings *settings,
                         char *why, size_t why_size);
/* Whether this server has been a member: 1, also if it does not run now. */
int32_t synod_host_was_member(const struct synod_settings *settings);
/* Decides a client's transaction. */
int32_t synod_host_commit(const struct synod_transaction *transaction, int64_t *number);
/* The server has committed what was decided last for this thread; from any thread. */
void synod_host_committed(uint32_t thread);
/* Number of the time for which this server takes writes now; 0: it takes none. */
int64_t synod_host_opening(void);
void synod_host_status(struct synod_status *status);
/* Finds out the position that a transaction sees at least, in `seconds` at most; 0: none. Returns
   0; 1: not in time; 2: the server takes no part in its group, or has just joined it. On failure,
   the reason is in `why`. */
int32_t synod_host_position(int32_t kind, uint32_t seconds, void *context,
                            int32_t (*is_killed)(void *context), int64_t *number, char *why,
                            size_t why_size);
/* Puts the servers that are present into the places, and returns how many. */
size_t synod_host_members(struct synod_member *members, size_t places);
/* Has the server with this server_uuid become the writer. On failure, the reason is in `why`. */
int32_t synod_host_lead(const char *server, char *why, size_t why_size);
/* Leaves the group in order: another member becomes the writer, if this one is. */
void synod_host_leave(void);
/* Ends all threads of the host, and all waits. */
void synod_host_stop(void);

#ifdef __cplusplus
}
#endif
#endif
