/* What the files of the plugin share.

   SPDX-License-Identifier: GPL-2.0-only */
#ifndef SYNOD_MYSQL_H
#define SYNOD_MYSQL_H

#include <mysql/components/services/registry.h>
#include <mysql/plugin.h>
#include <mysql/plugin_group_replication.h>
#include <mysql/service_my_plugin_log.h>
#include <mysql/service_plugin_registry.h>

#include <atomic>
#include <chrono>
#include <string>

#include "synod_host.h"

/* The server treats a channel of this name as that of a group: users cannot change or start it. */
inline const char *const CHANNEL = "group_replication_applier";

/* A service of the server's components, for as long as it is used. */
template <typename Service>
class Use {
 public:
  explicit Use(const char *name) : registry_(mysql_plugin_registry_acquire()) {
    if (registry_ != nullptr && registry_->acquire(name, &handle_)) handle_ = nullptr;
  }
  ~Use() {
    if (handle_ != nullptr) registry_->release(handle_);
    if (registry_ != nullptr) mysql_plugin_registry_release(registry_);
  }
  Use(const Use &) = delete;
  Use &operator=(const Use &) = delete;
  explicit operator bool() const { return handle_ != nullptr; }
  Service *operator->() const { return reinterpret_cast<Service *>(handle_); }

 private:
  SERVICE_TYPE(registry) * registry_;
  my_h_service handle_ = nullptr;
};

/* ---- the server, in server.cc */

/* The plugin "synod"; null: it is not loaded. */
extern MYSQL_PLUGIN self;
void say(plugin_log_level level, const std::string &text);
/* The global value of a variable of the server; "?": it cannot be read. */
std::string variable(const char *name);
/* These return 0 for success. */
bool set_variable(const char *name, const char *value);
int32_t set_read_only(int32_t on);
int32_t set_flush(int32_t on);
extern const synod_server server_calls;
/* Waits, where a test asks for it. */
void pause_at(const char *step);

/* ---- transactions of clients, in transactions.cc */

extern struct Trans_observer transaction_hooks;

/* Waits since the server's start. */
struct Waits {
  std::atomic<unsigned long long> count{0}, sum_us{0};
  void add(std::chrono::steady_clock::time_point since) {
    const auto took = std::chrono::steady_clock::now() - since;
    sum_us += std::chrono::duration_cast<std::chrono::microseconds>(took).count();
    count++;
  }
};
/* Of commits for the group, of those among them that others had to apply, and of transactions that
   see all that was acknowledged before them. */
extern Waits commit_waits, after_waits, before_waits;
extern std::atomic<unsigned long long> sent_bytes;

/* ---- channels from sources outside the group, in channels.cc */

extern struct Binlog_relay_IO_observer channel_hooks;
/* To be asked while the member does not run: its own is a channel, too. */
bool other_channel_runs();

/* ---- the member, by its plugin "synod", in member.cc */

/* Variables of that plugin. */
extern char *var_group, *var_name, *var_address, *var_members, *var_options;
extern bool var_bootstrap;
extern unsigned int var_workers;

extern struct Server_state_observer server_state_hooks;
/* The number that the server has for the group's UUID. */
extern int group_sidno;
/* Whether the host runs. */
extern std::atomic<bool> runs;
/* Nobody has asked for the member, or somebody has stopped it: clients write as to a server without
   a group, if super_read_only lets them. A server with such writes is refused by its group. */
extern std::atomic<bool> is_outside;
/* Why the host does not run. */
extern char start_problem[sizeof(synod_status::problem)];
/* Reads what does not change while the server runs. */
void read_fixed();
/* Starts the member, unless its settings say that a statement does. */
void start_with_server();
void stop_host();
bool member_runs();
/* Returns why it has not started; empty: it has. */
std::string start_member();
void stop_member();
/* The UUID of its group's GTIDs. */
std::string group_uuid();
std::string own_uuid();
struct OwnAddress {
  std::string host;
  unsigned int port;
};
/* The server's, for clients. */
OwnAddress own_address();

/* Servers that are present in the group. */
class Members {
 public:
  Members() : count_(synod_host_members(rows_, sizeof rows_ / sizeof *rows_)) {}
  size_t size() const { return count_; }
  const synod_member &operator[](size_t row) const { return rows_[row]; }
  const synod_member *begin() const { return rows_; }
  const synod_member *end() const { return rows_ + count_; }

 private:
  synod_member rows_[64];
  const size_t count_;
};

/* ---- the plugin "group_replication" */

/* Variables and calls of MySQL's own, for the same member. */
struct GroupReplicationSettings {
  std::string group, address, members, weight;
  bool bootstrap, starts_with_server;
  /* Why the member cannot start as these variables say; empty: it can. */
  std::string problem;
};
GroupReplicationSettings group_replication_settings();
/* Names of the variables that are set, and mean nothing here. */
std::string ignored_variables();
/* Why a group has one writer. */
extern const char *const ONE_WRITER;
/* What tools see as the version of Group Replication's protocol. */
inline const char *const COMMUNICATION_PROTOCOL = "8.0.27";
void register_functions();
void unregister_functions();
void register_tables();
void unregister_tables();
extern st_mysql_group_replication group_replication_calls;
extern SYS_VAR *group_replication_variables[];
extern SHOW_VAR group_replication_status[];
int group_replication_init(MYSQL_PLUGIN plugin);
int group_replication_deinit(MYSQL_PLUGIN plugin);

#endif
